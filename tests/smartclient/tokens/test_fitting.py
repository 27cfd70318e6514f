"""Conversations that are made to fit: always valid, never more than allowed."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from smartclient.tokens import Calibrator, TooLongError, count, fit
from tests.smartclient.tokens.conversations import (
    FORMATS,
    built,
    chats,
    faults,
    words_of_user,
)

MODEL = "gpt-4o"
every_format = pytest.mark.parametrize("format_", FORMATS)
LONG = [(20, [], 20)] * 20


def fitted(format_, messages, *, limit=600, **given):
    given = {"model": MODEL, "reserve": 100, "endpoint": format_, **given}
    return fit(messages, limit=limit, **given)


def a_request(format_, messages, **given):
    field = "input" if format_ == "openai.responses" else "messages"
    return {"model": MODEL, field: messages, **given}


def or_refused(call):
    """What `call` returns; `None` where what must stay does not fit."""
    try:
        return call()
    except TooLongError as error:
        return None if error.needed > error.allowed else pytest.fail(str(error))


@every_format
@given(
    chat=chats, limit=st.integers(250, 2500), target=st.floats(0.1, 1.0), turns=st.integers(0, 2)
)
def test_what_comes_out_is_valid_and_fits(format_, chat, limit, target, turns):
    messages = built(format_, chat)
    pinned = len(built(format_, chat[:turns], is_answered=True)) if turns < len(chat) else 0
    given = {"limit": limit, "target": target, "pinned": pinned, "system": "Be brief."}

    found = or_refused(lambda: fitted(format_, messages, **given))

    assume(found is not None)
    assert faults(format_, found.messages) == []
    assert found.tokens <= limit - 100
    assert found.messages[:pinned] == messages[:pinned]
    assert words_of_user(found.messages)[-1] == words_of_user(messages)[-1]
    assert found.messages[-1] is messages[-1]


@every_format
@given(chat=chats, limit=st.integers(250, 2500), with_summary=st.booleans())
def test_what_is_not_dropped_stays_as_it_is(format_, chat, limit, with_summary):
    messages = built(format_, chat)
    before = copy.deepcopy(messages)
    given = {"memory": {}, "summarise": lambda dropped: "In short"} if with_summary else {}

    found = or_refused(lambda: fitted(format_, messages, limit=limit, summary_tokens=20, **given))

    assume(found is not None)
    kept = [one for one in found.messages if any(one is other for other in messages)]
    gone = [one for one in messages if not any(one is other for other in kept)]
    num_summaries = int(found.summary is not None)
    assert messages == before
    assert kept == [one for one in messages if not any(one is other for other in gone)]
    assert faults(format_, found.messages) == []
    assert len(found.messages) - len(kept) == num_summaries == int(bool(found.dropped and given))
    assert len(gone) - len(found.dropped) == num_summaries  # the message that it joined


@every_format
@given(chat=chats, limit=st.integers(250, 2500))
def test_what_fits_is_left_alone(format_, chat, limit):
    once = or_refused(lambda: fitted(format_, built(format_, chat), limit=limit))

    assume(once is not None)
    again = fitted(format_, once.messages, limit=limit)

    assert again.messages == once.messages
    assert (again.dropped, again.num_cuts, again.is_new_cut) == ([], 0, False)


@every_format
@given(chat=chats, limit=st.integers(250, 2500))
def test_a_request_begins_with_the_one_before_it_until_the_next_cut(format_, chat, limit):
    """So that the provider's cache is read: the whole point of cutting seldom."""
    lengths = range(1, len(chat) + 1)
    results = [
        or_refused(lambda turns=turns: fitted(format_, built(format_, chat[:turns]), limit=limit))
        for turns in lengths
    ]

    steps = [(one, two) for one, two in pairwise(results) if one is not None and two is not None]
    same = [(one, two) for one, two in steps if one.num_cuts == two.num_cuts]
    assert all(two.messages[: len(one.messages)] == one.messages for one, two in same)


@every_format
def test_a_count_of_the_whole_request_agrees(format_):
    messages = built(format_, [*LONG, (5, [(3, 10), (1, 5)], 0)])
    tools = [{"type": "function", "name": "look", "input_schema": {}}]

    found = fit(
        a_request(format_, messages, tools=tools, max_tokens=100), endpoint=format_, limit=1900
    )

    whole = count(found.payload, model=MODEL, endpoint=format_).p95
    assert whole <= found.tokens <= whole + len(messages)


@every_format
def test_a_request_comes_back_as_a_request(format_):
    request = a_request(format_, built(format_, LONG), temperature=0)

    found = fit(request, reserve=100, limit=600)

    assert list(found.payload) == list(request)
    assert found.payload["temperature"] == 0
    assert len(request[list(request)[1]]) == 39 > len(found.messages)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_stay_wherever_they_stand(role):
    first, later = ({"role": role, "content": text} for text in ("Be brief.", "Now be kind."))
    messages = [first, *built("openai.chat", LONG[:5]), later, *built("openai.chat", LONG)]

    found = fitted("openai.chat", messages)

    assert found.messages[:2] == [first, later]
    assert found.messages[2]["role"] == "user"


def test_instructions_between_turns_go_with_their_turn_where_they_may_not_begin():
    """Anthropic takes a system message only behind one of the user."""
    note = {"role": "system", "content": "Now be kind."}
    turn = built("anthropic.messages", LONG[:1], is_answered=True)
    messages = [turn[0], note, turn[1], *built("anthropic.messages", LONG)]

    found = fitted("anthropic.messages", messages)

    assert note in found.dropped


@every_format
def test_an_agent_keeps_its_task_and_its_last_step(format_):
    """One turn of the user, and a hundred steps behind it: whole turns are not enough."""
    messages = built(format_, [(30, [(2, 20)] * 100, 0)])

    found = fitted(format_, messages)

    assert found.messages[0] is messages[0]
    assert found.messages[-1] is messages[-1]
    assert faults(format_, found.messages) == []


def test_words_between_results_are_words_of_the_user():
    messages = built("anthropic.messages", [(5, [(1, 40)] * 12, 0)])
    messages[10]["content"].append({"type": "text", "text": "No, not there."})

    found = fitted("anthropic.messages", messages)

    assert words_of_user(found.messages)[-1] == "No, not there."
    assert faults("anthropic.messages", found.messages) == []


def test_a_result_that_comes_late_keeps_all_since_its_call():
    late = {"type": "function_call_output", "call_id": "slow", "output": "done"}
    call = {"type": "function_call", "call_id": "slow", "name": "look", "arguments": "{}"}
    head = built("openai.responses", LONG)
    middle = built("openai.responses", LONG[:3])

    found = fitted("openai.responses", [*head, call, *middle, late, *middle[:1]])

    assert call in found.messages
    assert late in found.messages
    assert head[0] in found.dropped


@every_format
def test_one_message_that_is_too_long_is_refused_with_numbers(format_):
    messages = [*built(format_, LONG[:2]), {"role": "user", "content": "long " * 900}]

    with pytest.raises(TooLongError, match=r"5\] alone has 9\d\d: shorten it") as caught:
        fitted(format_, [*messages[:3], *built(format_, LONG[:1], is_answered=True), messages[3]])

    assert caught.value.allowed == 500
    assert caught.value.longest > 900


def test_tools_that_are_too_long_are_named():
    with pytest.raises(TooLongError, match="what stands around the messages alone has"):
        fitted("openai.chat", built("openai.chat", LONG), system="long " * 900)


def test_the_window_is_the_catalogs():
    found = fit([{"role": "user", "content": "Hello"}], "gpt-5.1", reserve=10_000)

    assert found.allowed == 272_000  # of 400,000, which the answer shares


def test_the_answer_takes_what_the_request_allows_it():
    request = a_request("openai.chat", built("openai.chat", LONG), max_completion_tokens=4_000)

    assert fit(request).allowed == 128_000 - 4_000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"model": "who-knows"}, "'who-knows' is not known; give limit=", id="window"),
        pytest.param({"model": None}, "fit needs model=", id="model"),
        pytest.param({"reserve": None}, "give reserve=", id="reserve"),
        pytest.param({"reserve": -1}, "reserve must be at least 0 tokens, not -1", id="negative"),
        pytest.param({"reserve": 128_000}, "leaves nothing of a window of 128,000", id="all"),
        pytest.param({"target": 0}, "target must be above 0 and at most 1, not 0", id="target"),
        pytest.param({"pinned": -1}, "pinned must be at least 0 messages, not -1", id="pinned"),
        pytest.param({"summarise": str}, "summarise needs memory=", id="memory"),
        pytest.param({"memory": {}, "summary_tokens": 0}, "summary_tokens must be", id="summary"),
        pytest.param({"endpoint": "text"}, "endpoint must be one of", id="endpoint"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        fit([{"role": "user", "content": "Hi"}], **{"model": MODEL, "reserve": 10, **given})


@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        pytest.param("Hello", "a list of messages or a request, not str", id="text"),
        pytest.param({"prompt": "Hello"}, "messages or input; this one holds prompt", id="other"),
        pytest.param(
            {"input": "Hi", "previous_response_id": "r"}, "keeps the history", id="elsewhere"
        ),
    ],
)
def test_what_is_no_conversation_is_refused(conversation, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fit(conversation, MODEL, reserve=10)


def test_a_request_has_its_own_tools():
    with pytest.raises(ValueError, match="a request has its own"):
        fit({"messages": []}, MODEL, reserve=10, system="Be brief.")


def test_a_correction_of_the_counts_moves_the_cuts():
    messages = built("openai.chat", LONG)
    counted = count({"messages": messages}, model=MODEL)
    calibrator = Calibrator()
    for _ in range(50):
        calibrator.observe(counted, counted.p50 * 2, provider="openai", model=MODEL)

    plain, learned = (fitted("openai.chat", messages, calibrator=one) for one in (None, calibrator))

    assert learned.tokens_before > 1.2 * plain.tokens_before
    assert len(learned.messages) < len(plain.messages)


NAMES = st.sampled_from(
    "type role content text source function input messages system output call_id id tool_use_id "
    "tool_calls tool_call_id".split()
)
WORDS = st.sampled_from("user assistant tool tool_use tool_result function_call reasoning".split())
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@every_format
@given(messages=st.lists(JSON, max_size=5))
def test_nonsense_is_fitted_or_refused(format_, messages):
    found = or_refused(
        lambda: fitted(format_, messages, limit=150, memory={}, summarise=lambda dropped: "S",
                       summary_tokens=15)
    )  # fmt: skip

    assert found is None or found.tokens <= 50
