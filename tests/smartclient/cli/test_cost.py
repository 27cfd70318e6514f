"""`smartclient cost`: requests in every model's money."""

from __future__ import annotations

import csv

import pytest

from smartclient.catalog import builtin
from smartclient.cli import models
from tests.smartclient.cli.written import a_chat, a_claude

SYSTEM = "You are a patient teacher who answers in short sentences. " * 300


def names(found):
    return [one["model"] for one in found]


def test_every_model_is_priced_the_cheapest_first(told, a_file):
    found = told("cost", a_file(a_claude()))

    amounts = [one["dollars_total"] for one in found]
    known = [float(amount) for amount in amounts if amount is not None]
    assert sorted(names(found)) == sorted(facts.name for facts in builtin())
    assert known == sorted(known)
    assert amounts == [*amounts[: len(known)], *[None] * (len(amounts) - len(known))]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(["--model", "claude-opus-5-5"], ["claude-opus-5-5"], id="a-name"),
        pytest.param(["--model", "claude-opus-5*", "--sort", "model"],
                     ["claude-opus-5", "claude-opus-5-5"], id="a-pattern"),
        pytest.param(["--model", "o3", "--model", "o4-mini", "--sort", "model"],
                     ["o3", "o4-mini"], id="two"),
        pytest.param(["--provider", "openai", "--model", "o*"], ["o4-mini", "o3", "o3-pro"],
                     id="of-a-provider"),
    ],
)  # fmt: skip
def test_models_are_chosen(told, a_file, options, expected):
    assert names(told("cost", a_file(a_claude()), *options)) == expected


def test_a_fine_tuned_model_stands_beside_its_base(told, a_file):
    options = ("--model", "gpt-4o", "--model", "ft:gpt-4o:me", "--model", "openai/gpt-4o")

    prices = [one["dollars_input_p50"] for one in told("cost", a_file(a_claude()), *options)]

    assert len(set(prices)) == len(prices) == 2


def test_a_limit_of_a_hundred_digits_has_no_price(told, a_file):
    [one] = told("cost", a_file(a_claude(max_tokens=10**110)), "--model", "claude-opus-5")

    assert one["dollars_total"] is None
    assert "unknown: output of over 1,000,000,000,000,000 tokens" in one["remarks"]


def test_money_is_text_with_every_digit(told, a_file):
    [one] = told("cost", a_file(a_claude()), "--model", "claude-opus-5", "--output", "1")

    assert one["dollars_output"] == "0.000025"
    assert (one["output_tokens"], one["calls"]) == (1, 1)


def test_many_calls_show_what_a_cache_saves(run, a_file):
    path = a_file(a_claude(system=SYSTEM))

    status, out, _ = run("cost", path, "--calls", "1,000", "--model", "claude-opus-5-5")

    head, row = out.splitlines()[:2]
    total, cached, saved = row.split()[5:8]
    assert status == 0
    assert head.split()[-4:] == ["total", "cached", "saved", "remarks"]
    assert float(cached[1:]) + float(saved[1:]) == pytest.approx(float(total[1:]), abs=1e-3)
    assert "1 request, 1,000 calls in all." in out


def test_a_spreadsheet_has_what_programs_get(run, told, a_file):
    path = a_file(a_chat())

    _, out, _ = run("cost", path, "--csv", "--model", "gpt-6*")

    rows = list(csv.DictReader(out.splitlines()))
    assert names(rows) == names(told("cost", path, "--model", "gpt-6*"))
    assert rows[0]["dollars_output"] == ""
    assert rows[0]["dollars_total"] == told("cost", path, "--model", "gpt-6*")[0]["dollars_total"]


def test_without_a_limit_the_table_says_what_it_leaves_out(run, a_file):
    _, out, _ = run("cost", a_file(a_chat()), "--model", "o3")

    assert "No limit of the output is set, so the total leaves it out: give --output N." in out


def test_prices_of_ones_own_are_used(told, a_file):
    mine = a_file({"models": [{"name": "o3", "prices": {"input": 7, "output": 0}}]}, "prices.json")

    [one] = told("cost", a_file(a_chat()), "--model", "o3", "--catalog", mine)

    assert float(one["dollars_total"]) == pytest.approx(one["input_p50"] * 7 / 1e6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "give a request file to price, - for stdin, or --ledger FILE", id="none"),
        pytest.param(["x", "--ledger", "y"], "give request files or --ledger, not both", id="both"),
        pytest.param(["x", "--model", "zz*"], "is called like 'zz*'", id="no-such-pattern"),
        pytest.param(["x", "--model", "gpt-5.11"], "did you mean gpt-5.1 or", id="near"),
        pytest.param(["x", "--provider", "acme"], "known are anthropic, openai", id="provider"),
        pytest.param(["x", "--model", "zz"], "'zz' in the catalog; --catalog FILE", id="far"),
        pytest.param(["x", "--by", "tag"], "give it with --ledger FILE", id="by-without-ledger"),
        pytest.param(["nowhere"], "nowhere cannot be read: No such file", id="no-file"),
        pytest.param(["--ledger", "nowhere"], "nowhere cannot be read: No such", id="no-ledger"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_status_2(run, arguments, message):
    status, out, err = run("cost", *arguments)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize(
    "option", ["--calls=0", "--calls=many", "--output=-1", "--output=1.5", f"--calls={10**13}"]
)
def test_an_absurd_number_is_refused(run, capsys, option):
    with pytest.raises(SystemExit) as ended:
        run("cost", "x", option)

    assert ended.value.code == 2
    assert "must be a whole number from" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["cost", "tokens"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_missing_vocabulary_is_told_with_its_remedy(run, a_file, monkeypatch, command, is_there):
    found = (lambda texts: [1 for _ in texts]) if is_there else None
    monkeypatch.setattr(models.SHARED.vocabularies, "get", lambda encoding, wait=True: found)

    _, out, _ = run(command, a_file("Hello", "a.txt"), "--text", "--model", "gpt-4o")

    assert ("pip install 'smartclient[tokens]'" in out) is not is_there
