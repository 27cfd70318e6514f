"""Repeated text, found in requests one by one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from smartclient.tokens import Boilerplate, boilerplate, count

MODEL = "claude-opus-5"
SYSTEM = " ".join(f"Rule {n} for letters to the library is to be kind." for n in range(60))
TOOL = {"name": "look", "description": "Look into the catalog of books. " * 30, "input_schema": {}}
TEMPLATE = "Answer this letter by the rules of the house.\nBe short and polite in all of it.\n"


def a_request(question="Are you open today?", *, system=SYSTEM, before=(), **given):
    messages = [*before, {"role": "user", "content": question}]
    return {"model": MODEL, "system": system, "messages": messages, **given}


def a_chat(turns, name="x"):
    """The requests of one conversation."""
    messages = []
    for turn in range(turns):
        messages = [
            *messages,
            {"role": "user", "content": f"Question {turn} of {name}. " + f"{name} asks. " * 40},
        ]
        yield {"model": MODEL, "system": SYSTEM, "messages": messages}
        messages = [*messages, {"role": "assistant", "content": f"Answer {turn} to {name}."}]


def found(requests, **given):
    return boilerplate(requests, **{"period": 86_400, **given})


def test_a_system_prompt_and_tools_are_found_with_what_they_cost():
    report = found([a_request(f"Letter {n}?", tools=[TOOL]) for n in range(10)])

    assert [(one.kind, one.path, one.num_sent) for one in report.repeated] == [
        ("system", "system", 10),
        ("tool", "tools[0]", 10),
    ]
    [system, _] = report.repeated
    assert system.tokens == count(SYSTEM, model=MODEL).p50
    assert system.tokens_per_day == 10 * system.tokens
    assert float(system.dollars_per_day) == pytest.approx(10 * system.tokens * 5 / 1e6)
    assert system.excerpt == SYSTEM[:60]


def test_a_day_is_what_the_times_make_of_it():
    start = datetime(2026, 11, 30, tzinfo=UTC)
    requests = [(start + timedelta(minutes=n), a_request(f"Letter {n}?")) for n in range(61)]

    [system] = boilerplate(requests).repeated

    assert system.tokens_per_day == pytest.approx(61 * 24 * system.tokens)


def test_without_any_time_nothing_is_said_of_a_day():
    report = boilerplate([a_request("One?"), a_request("Two?")])

    [system] = report.repeated
    assert (report.period, system.tokens_per_day, system.dollars_per_day) == (None, None, None)


@pytest.mark.parametrize(
    ("gap", "writes"),
    [
        pytest.param(60, 1, id="within-five-minutes"),
        pytest.param(300, 1, id="at-five-minutes"),
        pytest.param(301, 10, id="never-in-time"),
    ],
)
def test_a_cache_writes_again_after_its_time(gap, writes):
    requests = [(float(gap * n), a_request(f"Letter {n}?")) for n in range(10)]

    [system] = boilerplate(requests, period=86_400).repeated

    dollars = system.tokens * (writes * 6.25 + (10 - writes) * 0.5) / 1e6
    assert float(system.cached_per_day) == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("per_day", "is_read"), [pytest.param(300, True, id="often"), pytest.param(200, False, id="no")]
)
def test_without_times_requests_are_spread_evenly(per_day, is_read):
    [system] = found([a_request(f"Letter {n}?") for n in range(per_day)]).repeated

    assert (system.cached_per_day < system.dollars_per_day) is is_read


def test_a_prompt_at_the_beginning_can_be_cached():
    [system] = found([a_request(f"Letter {n}?") for n in range(5)]).repeated

    assert (system.is_cacheable, system.obstacle) == (True, None)


def test_a_prompt_behind_text_that_varies_cannot():
    requests = [
        a_request(
            f"Letter {n}?", system=[{"type": "text", "text": f"It is {n} o'clock."},
                                    {"type": "text", "text": SYSTEM}],
        )
        for n in range(5)
    ]  # fmt: skip

    [system] = found(requests).repeated

    assert (system.path, system.is_cacheable) == ("system[1]", False)
    assert system.obstacle == "what is before it varies, at system[0]"


def test_a_tool_that_moves_breaks_what_is_behind_it():
    other = {**TOOL, "name": "find"}
    orders = [[TOOL, other], [other, TOOL], [TOOL, other], [other, TOOL], [TOOL, other, TOOL]]

    report = found([a_request("Hi?", tools=tools, system=f"{n}") for n, tools in enumerate(orders)])

    assert [one.kind for one in report.repeated] == ["tool", "tool"]


def test_a_short_prefix_is_under_the_models_minimum():
    short = "You answer letters that readers wrote to us. " * 4

    [system] = found([a_request(f"Letter {n}?", system=short) for n in range(5)]).repeated

    assert not system.is_cacheable
    assert "the model keeps none below 512" in system.obstacle


def test_a_passage_in_texts_that_differ_is_found():
    report = found([a_request(f"{TEMPLATE}Letter {n}: {'x' * n}", system="") for n in range(9)])

    [passage] = report.repeated
    assert (passage.kind, passage.num_sent) == ("passage", 9)
    assert passage.excerpt == "Answer this letter by the rules of the house."
    assert abs(passage.tokens - count(TEMPLATE, model=MODEL).p50) <= 4
    assert passage.obstacle == "the rest of its block varies: make it a block of its own"


def test_a_prompt_that_holds_the_time_is_found_as_a_passage():
    report = found(
        [a_request("Hi?", system=f"It is {n}:00 o'clock now.\n{SYSTEM}") for n in range(9)]
    )

    passages = [one for one in report.repeated if one.kind == "passage"]
    assert passages[0].tokens > 0.9 * count(SYSTEM, model=MODEL).p50
    assert passages[0].obstacle == "what is before it varies, at system"


def test_a_text_is_not_told_again_as_its_passages():
    report = found([a_request(f"Letter {n}?", system=SYSTEM + TEMPLATE) for n in range(4)])

    assert [one.kind for one in report.repeated] == ["system"]


def test_passages_count_as_often_as_their_texts_were_sent():
    chats = [list(a_chat(4, name)) for name in "ab"]
    for chat in chats:
        for request in chat:
            request["system"] = ""
            first = request["messages"][0]
            request["messages"] = [
                {**first, "content": TEMPLATE + first["content"]}, *request["messages"][1:]
            ]  # fmt: skip

    report = found([request for chat in chats for request in chat])

    assert [(one.kind, one.num_sent) for one in report.repeated] == [("passage", 8)]


def test_earlier_turns_of_a_conversation_are_no_boilerplate():
    report = found(list(a_chat(6)))

    assert [one.kind for one in report.repeated] == ["system"]
    assert report.history_tokens > 0.3 * (report.tokens - 6 * report.repeated[0].tokens)


def test_examples_in_every_conversation_are_boilerplate():
    shot = {"role": "user", "content": "An example of a letter that came to us. " * 9}
    answer = {"role": "assistant", "content": "An answer as we like it to be sent. " * 9}

    report = found([a_request(f"Letter {n}?", before=[shot, answer]) for n in range(5)])

    assert [one.path for one in report.repeated] == [
        "system", "messages[0].content", "messages[1].content",
    ]  # fmt: skip
    assert all(one.is_cacheable for one in report.repeated)


def test_an_unknown_price_stays_unknown():
    requests = [{**a_request(f"Letter {n}?"), "model": "who-knows"} for n in range(3)]

    [system] = found(requests).repeated

    assert system.tokens_per_day == 3 * system.tokens
    assert (system.dollars_per_day, system.cached_per_day) == (None, None)


def test_models_are_told_apart():
    requests = [
        {**a_request(f"{n}?"), "model": model} for n in range(2) for model in (MODEL, "gpt-4o")
    ]

    report = found(requests)

    assert sorted(one.model for one in report.repeated) == [MODEL, "gpt-4o"]


def test_an_excerpt_can_be_left_out():
    report = found([a_request(f"Letter {n}?") for n in range(3)], excerpt=0)

    assert [one.excerpt for one in report.repeated] == [""]
    assert "for letters" not in f"{report} {report.to_dict()}"


def test_requests_may_be_json():
    bodies = [json.dumps(a_request(f"Letter {n}?")) for n in range(3)]

    assert found(bodies).repeated == found([json.loads(body) for body in bodies]).repeated


def test_what_is_no_request_is_skipped_and_counted():
    odd = [{"prompt": "x"}, {"model": MODEL, "prompt": "x"}, "text", b"\xff", {"messages": []}]
    empty = {"model": MODEL, "messages": []}

    report = found([*odd, empty, a_request()])

    assert (report.num_requests, report.num_skipped) == (2, 5)


def test_an_image_counts_as_one():
    image = {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}
    body = {"model": MODEL, "messages": [{"role": "user", "content": [image]}]}

    [row] = found([body, body]).repeated

    assert row.tokens > 500


def test_memory_is_bounded_and_what_is_forgotten_is_told():
    seen = Boilerplate(size=64)

    for number in range(1000):
        seen.add(a_request(f"{TEMPLATE}Letter {number}? " + "And so on it went. " * (number % 7)))
    report = seen.report(period=86_400)

    assert len(seen._texts) <= 64
    assert len(seen._pieces) <= 128
    assert len(seen._prefixes) <= 256
    assert report.num_forgotten > 900
    assert [(one.kind, one.num_sent) for one in report.repeated] == [
        ("system", 1000), ("passage", 1000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"size": 1}, "size must be at least 64 texts, not 1", id="size"),
        pytest.param({"excerpt": -1}, "excerpt must be 0 to 200 characters, not -1", id="excerpt"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Boilerplate(**given)


@pytest.mark.parametrize("period", [0, -1, float("nan")])
def test_a_period_must_be_one(period):
    with pytest.raises(ValueError, match="period must be above 0 s"):
        Boilerplate().report(period=period)
