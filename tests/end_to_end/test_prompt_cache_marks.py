"""Marks of the caller's own, beside ours: sent whole or refused here, never by the provider."""

from __future__ import annotations

import random

import pytest

import smartclient
from tests.end_to_end.cache_proof import Proof, says, text, tokens, told, ways

pytestmark = pytest.mark.sdk

SYSTEM = "rule by rule " * 600
A, B = "a rule " * 500, "b rule " * 500
MARK = {"type": "ephemeral"}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s"}


def three_marks():
    return [text(SYSTEM, ttl="5m"), text(A, ttl="5m"), text(B, ttl="5m")]


def ask_thrice(one, **fields):
    for number in range(3):
        one.ask(messages=[says("user", f"{number} " * 300)], **fields)
        one.clock.advance(20)
    return one.reports


@ways("messages")
@pytest.mark.parametrize("hints", ["cautious", "full"])
def test_three_marks_and_one_on_the_request_leave_ours_no_room(proof, api, way, hints):
    one = proof(api, way=way, hints=hints)

    reports = ask_thrice(one, system=three_marks(), cache_control=MARK)

    assert [len(one.marks(number)) for number in range(3)] == [4] * 3
    assert [each.cache.placed for each in reports] == [()] * 3
    assert [told(each).read for each in reports[1:]] == [tokens(SYSTEM, A, B)] * 2


@ways("messages")
def test_two_marks_leave_ours_two(proof, api, way):
    one = proof(api, way=way)
    system = [text(SYSTEM, ttl="5m"), text(A, ttl="5m"), text(B)]
    said = []
    for number in range(5):
        said.append(says("user", f"question {number} " * 40))
        one.ask(system=system, messages=said)
        said.append(says("assistant", "Fine."))

    assert max(len(one.marks(number)) for number in range(5)) == 4
    assert all({("system[0]", "5m"), ("system[1]", "5m")} <= set(one.marks(n)) for n in range(5))
    assert told(one.reports[-1]).uncached == 0


def test_behind_five_minutes_of_the_caller_no_hour_is_ours(proof):
    one = proof()
    said = []
    for number in range(5):
        said.append(says("user", f"question {number} " * 40))
        one.ask(system=[text(SYSTEM, ttl="5m")], messages=said)
        said.append(says("assistant", "Fine."))
        one.clock.advance(6 * 60)

    assert {ttl for number in range(5) for _, ttl in one.marks(number)} <= {"5m", ""}


def test_an_hour_of_the_caller_is_read_past_five_minutes(proof):
    one = proof()
    for number in range(3):
        one.ask(system=[text(SYSTEM, ttl="1h")], messages=[says("user", f"{number}?")])
        one.clock.advance(6 * 60)

    assert [told(each).read for each in one.reports] == [0, tokens(SYSTEM), tokens(SYSTEM)]


REFUSED = pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param(
            {"system": [text(f"{n}{SYSTEM}", ttl="5m") for n in range(5)]},
            r"at most 4 cache marks, and 5 blocks are marked .* take off 1 of them",
            id="five",
        ),
        pytest.param(
            {"system": [*three_marks(), text("c", ttl="5m")], "cache_control": MARK},
            r"4 blocks are marked, beside the one on the whole request",
            id="four-and-the-request",
        ),
        pytest.param(
            {"system": [text(SYSTEM, ttl="5m"), text(A, ttl="1h")]},
            r"the mark of 1h on system\[1\] stands after the one of 5m on system\[0\]",
            id="an-hour-after-five-minutes",
        ),
        pytest.param(
            {"system": [text(A, ttl="5m")], "cache_control": {**MARK, "ttl": "1h"}},
            r"the mark of 1h on the whole request acts at its end",
            id="an-hour-on-the-request",
        ),
        pytest.param(
            {"before": says("assistant", [{**THINKING, "cache_control": MARK}, text("Yes.")])},
            r"messages\[1\]\.content\[0\] cannot be marked: it is a block of thinking",
            id="on-thinking",
        ),
        pytest.param(
            {"before": says("assistant", [text("", ttl="5m"), text("Yes.")])},
            r"messages\[1\]\.content\[0\] cannot be marked: its text is empty",
            id="on-empty-text",
        ),
        pytest.param(
            {
                "tools": [
                    {
                        "name": "t",
                        "input_schema": {"type": "object"},
                        "defer_loading": True,
                        "cache_control": MARK,
                    }
                ]
            },
            r"tools\[0\] has defer_loading and cannot be marked",
            id="on-a-deferred-tool",
        ),
    ],
)


def given(fields):
    """A request of `fields`, where `before` is a turn of the model's."""
    rest = {name: value for name, value in fields.items() if name != "before"}
    turns = [says("user", SYSTEM)]
    if "before" in fields:
        turns += [fields["before"], says("user", "Go on.")]
    return {"messages": turns, **rest}


@REFUSED
@ways("messages")
def test_marks_that_would_be_refused_are_refused_here_with_the_reason(proof, api, way, fields, why):
    one = proof(api, way=way)

    with pytest.raises(Exception, match=why) as caught:
        one.ask(**given(fields))

    is_ours = isinstance(caught.value, smartclient.RefusedError)
    assert is_ours if way.startswith("own") else caught.value.status_code == 400
    assert (one.bodies(), one.reports[0].error, one.reports[0].attempts) == ([], "refused", [])


@REFUSED
def test_the_provider_would_have_refused_each_of_them(proof, fields, why):
    one = proof(hints="off", refuses=(400,))

    with pytest.raises(smartclient.InvalidRequestError):
        one.ask(**given(fields))


@REFUSED
def test_a_refused_call_holds_nothing_of_a_budget(proof, fields, why):
    one = proof()

    with pytest.raises(smartclient.RefusedError):
        one.ask(**given(fields))

    state = one.budget.state()
    assert (state.held["tokens"], state.spent["tokens"], state.spent["requests"]) == (0, 0, 0)


# Any marks at all.


def any_block(chance):
    kind = chance.choice(["text", "text", "text", "empty", "thinking", "tool_use"])
    block = {
        "text": lambda: text(chance.choice([A, B, "short"])),
        "empty": lambda: text(""),
        "thinking": lambda: dict(THINKING),
        "tool_use": lambda: {"type": "tool_use", "id": "t1", "name": "t", "input": {}},
    }[kind]()
    if chance.random() < 0.35:
        ttl = chance.choice([{}, {"ttl": "5m"}, {"ttl": "1h"}])
        block["cache_control"] = MARK | ttl
    return block


def any_request(chance):
    """Marks anywhere: on text, empty text, thinking, calls and the request itself."""
    system = [text(A), *(any_block(chance) for _ in range(chance.randrange(3)))]
    system = [one for one in system if one["type"] == "text"]
    turns = []
    for number in range(chance.randrange(1, 4)):
        role = ("user", "assistant")[number % 2]
        blocks = [any_block(chance) for _ in range(chance.randrange(1, 3))]
        if role == "user":
            blocks = [one for one in blocks if one["type"] == "text"] or [text("Go on.")]
        turns.append(says(role, blocks))
    fields = {"system": system, "messages": turns}
    if chance.random() < 0.3:
        fields["cache_control"] = MARK | chance.choice([{}, {"ttl": "1h"}])
    return fields


def verdict(one, fields):
    try:
        return one.ask(**fields).status
    except smartclient.SmartClientError:
        return 400


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(150), id="some"),
        pytest.param(range(150, 3000), id="many", marks=pytest.mark.long),
    ],
)
def test_whatever_the_caller_marks_what_the_provider_takes_is_sent_and_nothing_else(proof, seeds):
    """Against the verdict of the same provider on the same request, untouched."""
    plain = proof(hints="off", refuses=(400,))
    hinted = proof(hints="full")  # whose audit fails at the first 400
    for seed in seeds:
        fields = any_request(random.Random(seed))

        assert verdict(hinted, fields) == verdict(plain, fields), (seed, fields)
        hinted.clock.advance(20)


def test_a_caller_who_marks_as_an_agent_does_reads_the_same_with_us(proof):
    """Tools, system and the last two messages: four marks, all the caller's."""

    def run(one: Proof):
        said = []
        for number in range(6):
            said.append(says("user", [text(f"question {number} " * 40)]))
            marked = [says(turn["role"], [dict(turn["content"][0])]) for turn in said]
            for turn in marked[-2:]:
                turn["content"][0]["cache_control"] = MARK
            tool = {"name": "t", "description": A, "input_schema": {"type": "object"}}
            one.ask(
                tools=[{**tool, "cache_control": MARK}],
                system=[text(SYSTEM, ttl="5m")],
                messages=marked,
            )
            said.append(says("assistant", [text("Fine.")]))
            one.clock.advance(20)
        return [told(each) for each in one.reports]

    assert run(proof(hints="full")) == run(proof(hints="off"))
