"""`smartclient tokens`: what it counts, and how it says so."""

from __future__ import annotations

import pytest

from smartclient.tokens import count
from tests.smartclient.cli.written import TOOLS, a_chat, a_claude

PICTURE = {"type": "image_url", "image_url": {"url": "https://a.example/cat.png"}}


def test_a_request_is_counted_for_its_own_model(told, a_file):
    [one] = told("tokens", a_file(a_claude(tools=TOOLS)))["files"]

    counted = count(a_claude(tools=TOOLS), model="claude-opus-5-5")
    assert (one["p05"], one["p50"], one["p95"]) == (counted.p05, counted.p50, counted.p95)
    assert (one["model"], one["sources"], one["kinds"]) == (
        "claude-opus-5-5", {"heuristic": 1}, {"tools": 1}
    )  # fmt: skip
    assert sum(one["parts"].values()) == counted.p50


def test_another_model_can_be_named_more_than_once(told, a_file):
    found = told("tokens", "--model", "gpt-5.1", "--model", "gpt-4o", a_file(a_claude()))["files"]

    assert [one["model"] for one in found] == ["gpt-5.1", "gpt-4o"]


def test_a_text_without_a_model_is_counted_for_each_family(told, a_file):
    found = told("tokens", a_file("Hello there!", "notes.txt"))["files"]

    assert len({one["model"].partition("-")[0] for one in found}) == 2
    assert len(found) == 4


def test_files_of_one_model_have_a_total(told, a_file):
    line = a_chat()
    paths = [a_file(line, "a.json"), a_file([line, line], "b.json")]

    told_all = told("tokens", *paths)

    assert [one["requests"] for one in told_all["files"]] == [1, 2]
    [total] = told_all["totals"]
    assert (total["requests"], total["p50"]) == (3, 3 * count(line, model="gpt-5.1").p50)


def test_what_nobody_can_count_is_named(run, a_file):
    asked = a_chat(messages=[{"role": "user", "content": [PICTURE]}])

    status, out, _ = run("tokens", a_file(asked))

    assert status == 0
    assert "each is a guess:" in out
    assert "request.json: messages[0].content[0].image_url" in out


def test_of_many_such_parts_the_first_are_named(run, a_file):
    asked = a_chat(messages=[{"role": "user", "content": [PICTURE] * 30}])

    _, out, _ = run("tokens", a_file(asked))

    assert "content[9].image_url\n  and more\n" in out


def test_a_table_says_which_part_costs_what(run, a_file):
    _, out, _ = run("tokens", a_file(a_claude(tools=TOOLS)))

    head, row = out.splitlines()[:2]
    assert head.split() == "file model requests p05 p50 p95 source made of".split()
    assert row.split()[1:3] == ["claude-opus-5-5", "1"]
    assert [line.split()[2] for line in out.splitlines() if "%" in line] == ["tools", "messages"]


def test_a_request_of_an_unknown_model_is_an_estimate_that_says_so(run, a_file):
    status, out, err = run("tokens", a_file(a_chat(model="claude-opsu-5")))

    assert (status, err) == (0, "")
    assert "does not know the model claude-opsu-5 (near: claude-opus-5): a wide estimate" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--model", "gpt-5.11", "x"], "did you mean gpt-5.1 or", id="near"),
        pytest.param(["--model", "zzz", "x"], "there is no model 'zzz' in the catalog", id="far"),
        pytest.param([], "give a file to count, - for stdin, or --languages", id="nothing"),
        pytest.param(["--languages", "x"], "give it, or files", id="both"),
        pytest.param(["--catalog", "nowhere", "x"], "nowhere cannot be read: No such", id="prices"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_status_2(run, arguments, message):
    status, out, err = run("tokens", *arguments)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("smartclient tokens: ")
    assert message in err


def test_a_model_of_ones_own_is_known_by_a_file(told, a_file):
    prices = a_file({"models": [{"name": "ours", "prices": {"input": 1, "output": 2}}]}, "prices")

    [one] = told("tokens", "--catalog", prices, "--model", "ours", a_file(a_chat()))["files"]

    assert (one["model"], one["sources"]) == ("ours", {"heuristic": 1})


def test_json_that_is_no_request_is_counted_with_a_remark(run, told, a_file):
    path = a_file({"mesages": [{"role": "user", "content": "Hi"}]})

    [one] = told("tokens", "--model", "gpt-5.1", path)["files"]
    _, text, _ = run("tokens", "--model", "gpt-5.1", path)

    remark = "no messages, input or prompt, so only the rest is counted; did you mean 'messages'"
    assert (one["p50"] > 0, one["remarks"]) == (True, [f"{path}: {remark} by 'mesages'?"])
    assert one["remarks"][0] in text
    assert told("tokens", a_file(a_chat()))["files"][0]["remarks"] == []


def test_of_many_such_lines_some_are_told(run, a_file):
    _, text, _ = run("tokens", "--model", "gpt-5.1", a_file('{"a": 1}\n' * 50))

    assert text.count("no messages, input or prompt") == 10
    assert "\nand more" in text
