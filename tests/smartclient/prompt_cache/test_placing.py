"""Where marks pay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartclient.prompt_cache.blocks import Mark
from tests.smartclient.prompt_cache.hinted_prompts import Talk
from tests.smartclient.prompt_cache.payloads import agent_turn, messages, text

LONG = "a rule of some length " * 200  # some 1,100 tokens
SHORT = "short"


def said(*contents, system=LONG, **fields):
    return messages(*contents, system=system, **fields)


def turns(talk, number, *, gap=20.0, system=LONG, words=60):
    """A conversation that grows by a question and an answer; the plan of each turn."""
    contents, plans = [], []
    for turn in range(number):
        contents.append(f"question {turn} " * words)
        plans.append(talk.send(said(*contents, system=system), gap=gap))
        contents.append("answer " * words)
    return plans


def test_nothing_is_marked_that_was_sent_once():
    plan = Talk().send(said("Hello " * 50))

    assert plan.marks == ()
    assert plan.why_none == "nothing that was sent twice is worth a mark"


def test_what_was_sent_twice_is_marked_and_no_more():
    plan = turns(Talk(), 2)[1]

    assert plan.marks == (Mark(0, "5m"), Mark(1, "5m"))  # the system prompt, the first question


def test_a_mark_moves_with_the_conversation_and_one_stays_where_the_last_was_written():
    plans = turns(Talk(), 5)

    assert [mark.block for mark in plans[3].marks] == [0, 3, 5]
    assert [mark.block for mark in plans[4].marks] == [0, 5, 7]


def test_full_mode_marks_a_beginning_with_the_first_call():
    plan = Talk(is_full=True).send(said("Hello " * 50))

    assert plan.marks == (Mark(0, "5m"),)


def test_full_mode_marks_the_end_of_a_conversation_that_has_several_turns():
    plan = Talk(is_full=True).send(said("one " * 60, "two", "three"))

    assert plan.marks[-1].block == 3


def test_a_one_shot_suffix_is_not_marked():
    """Each request asks something else: the shared part is marked, the question is not."""
    talk = Talk(is_full=True)

    plans = [talk.send(said(f"{n} is my question " * 60)) for n in range(5)]

    assert all(plan.marks == (Mark(0, "5m"),) for plan in plans)


def test_what_never_stays_the_same_is_no_longer_marked():
    talk = Talk(is_full=True)

    plans = [talk.send(said("Hello", system=f"{n} o'clock. {LONG}")) for n in range(5)]

    assert plans[0].marks
    assert [plan.marks for plan in plans[3:]] == [(), ()]


@pytest.mark.parametrize(
    ("gap", "ttls"),
    [
        pytest.param(60.0, {"5m"}, id="soon"),
        pytest.param(360.0, {"1h"}, id="past-five-minutes"),
        pytest.param(3660.0, set(), id="past-an-hour"),
    ],
)
def test_the_time_to_live_follows_the_gaps(gap, ttls):
    plan = turns(Talk(), 5, gap=gap)[-1]

    assert {mark.ttl for mark in plan.marks} == ttls


def test_only_times_to_live_that_are_allowed_are_chosen():
    plans = turns(Talk(ttls=("5m",)), 5, gap=360.0)

    assert {mark.ttl for plan in plans for mark in plan.marks} <= {"5m"}


def test_a_prefix_that_is_surely_too_short_is_not_marked():
    plans = turns(Talk(is_full=True), 3, system=SHORT, words=1)

    assert plans[-1].marks == ()
    assert plans[-1].why_none == "shorter than the 512 tokens that are kept"


def test_what_was_learned_of_the_shortest_prefix_counts():
    talk = Talk(is_full=True)
    talk.book.learned_least = 5000

    assert turns(talk, 3)[-1].marks == ()


def test_where_expectations_fail_less_is_marked():
    talk = Talk(is_full=True)
    for _ in range(12):
        talk.book.verified(0.0, talk.now)

    assert talk.send(said("Hello " * 50)).marks == ()


def test_what_is_declared_static_is_marked_in_the_cautious_mode_too():
    plan = Talk(static=("system",)).send(said("Hello"))

    assert plan.marks == (Mark(0, "5m"),)


def test_the_prediction_is_what_a_live_entry_holds():
    talk = Talk()
    turns(talk, 3)
    talk.book.entries[talk.ticket.keys[3]].tokens = 4321

    plan = talk.send({**said("q"), "messages": _longer(talk)})

    assert (plan.hit, plan.predicted_read) == (3, 4321)


def _longer(talk):
    contents = []
    for turn in range(4):
        contents += [f"question {turn} " * 60, "answer " * 60]
    return said(*contents[:-1])["messages"]


def test_nothing_is_predicted_of_an_entry_that_has_expired():
    talk = Talk()
    turns(talk, 3)
    talk.now += 301.0

    plan = talk.send({**said("q"), "messages": _longer(talk)})

    assert plan.predicted_read == 0


def test_an_entry_out_of_the_look_back_is_reached_by_a_mark_on_itself():
    """25 blocks in turn, of which each is a position of its own."""
    talk = Talk(is_full=True)
    plans = turns(talk, 2)
    contents = ["question 0 " * 60, "answer " * 60, "question 1 " * 60]
    for n in range(13):
        contents += [f"asked {n}", f"told {n}"]

    plan = talk.send(said(*contents[:-1], "end"))

    assert plan.hit == plans[-1].marks[-1].block
    assert plan.hit in [mark.block for mark in plan.marks]


def test_a_run_of_tool_calls_is_one_position():
    talk, begun = Talk(is_full=True), ["Begin. " * 60]
    talk.send({**said(*begun), "tools": [{"name": "t", "input_schema": {}}]})
    turn = said(*begun)["messages"] + agent_turn("a", calls=30)

    plan = talk.send({**said("x"), "tools": [{"name": "t", "input_schema": {}}], "messages": turn})

    assert plan.hit is not None


def test_marks_of_the_caller_leave_fewer_to_place():
    talk = Talk(is_full=True)
    system = [text(LONG, "5m"), text("b " * 900, "5m"), text("c " * 900, "5m")]
    fields = {"system": system, "cache_control": {"type": "ephemeral"}}

    plans = [talk.send(messages("a " * 400, "b", "c " * 40 * n, **fields)) for n in range(1, 4)]

    assert all(plan.marks == () for plan in plans)


def test_where_two_places_are_left_they_go_where_the_conversation_is_read():
    """The end of the system prompt is read by the marks behind it, too."""
    talk, contents = Talk(is_full=True), []
    system = [text(f"{n} {LONG}") for n in range(3)]
    for block in system[:2]:
        block["cache_control"] = {"type": "ephemeral"}
    for turn in range(5):
        contents.append(f"question {turn} " * 20)
        plan = talk.send(said(*contents, system=system))
        contents.append("answer")

    assert [mark.block for mark in plan.marks] == [9, 11]  # what was written last, and the end
    assert plan.hit == 9


def test_no_hour_stands_behind_five_minutes_of_the_caller_s():
    talk, contents = Talk(), []
    for turn in range(5):
        contents.append(f"question {turn} " * 60)
        plan = talk.send(said(*contents, system=[text(LONG, "5m")]), gap=360.0)
        contents.append("answer")

    assert {mark.ttl for mark in plan.marks} <= {"5m"}


# OpenAI, from gpt-5.6 on.


def chat(*questions):
    told = [{"role": "developer", "content": LONG}]
    return {"messages": told + [{"role": "user", "content": one} for one in questions]}


def openai(**rules):
    return Talk("gpt-5.6", "openai.chat", **rules)


def test_the_end_of_a_chat_is_left_to_openai_s_own_mark():
    talk = openai(is_full=True)

    plans = [talk.send(chat("one " * 60)), talk.send(chat("one " * 60, "two"))]

    assert [mark.block for mark in plans[1].marks] == [0]
    assert plans[1].kept[-1].block == 2


def test_openai_s_own_marks_read_too():
    talk = openai()
    talk.send(chat("one " * 60))

    assert talk.send(chat("one " * 60, "two")).hit == 1


@pytest.mark.parametrize(("is_full", "calls"), [(True, 4), (False, 5)])
def test_openai_s_own_mark_is_turned_off_behind_a_shared_part(is_full, calls):
    talk = openai(is_full=is_full)

    plans = [talk.send(chat(f"{n} " * 80)) for n in range(calls)]

    assert [plan.is_explicit_only for plan in plans] == [False] * (calls - 1) + [True]
    assert plans[-1].marks == plans[-1].kept == (Mark(0, "30m"),)


@pytest.mark.parametrize(("is_full", "calls"), [(True, 3), (False, 4)])
def test_openai_s_own_mark_is_turned_off_where_each_prompt_begins_anew(is_full, calls):
    talk = openai(is_full=is_full)

    plans = [talk.send(messages(f"{n} {LONG}")) for n in range(calls)]

    assert [plan.is_explicit_only for plan in plans] == [False] * (calls - 1) + [True]
    assert plans[-1].kept == ()


def slow_chat(talk, gaps):
    said = [f"{n} " * 60 for n in range(len(gaps))]
    return [talk.send(chat(*said[: n + 1]), gap=gap) for n, gap in enumerate(gaps)]


def test_openai_s_own_mark_is_turned_off_where_the_next_turn_comes_too_late():
    plans = slow_chat(openai(), [4000.0] * 5)

    assert [plan.is_explicit_only for plan in plans] == [False] * 3 + [True] * 2


def test_openai_s_own_mark_comes_back_with_a_quicker_talk():
    plans = slow_chat(openai(), [4000.0] * 5 + [20.0] * 6)

    assert plans[5].is_explicit_only
    assert not plans[-1].is_explicit_only


def test_a_longer_time_to_live_keeps_what_openai_s_own_mark_would_lose():
    talk, said = Talk("gpt-5.6", "openai.responses"), [{"role": "developer", "content": LONG}]
    plans = []
    for n in range(5):
        said = [*said, {"role": "user", "content": f"{n} " * 60}]
        plans.append(talk.send({"input": said}, gap=4000.0))

    assert plans[4].is_explicit_only
    assert {mark.ttl for mark in plans[4].marks} == {"12h"}


def test_the_caller_s_mode_stays_as_it_is():
    talk = openai(is_full=True, may_set_mode=False)

    assert not any(talk.send(chat(f"{n} " * 80)).is_explicit_only for n in range(8))


def test_before_5_6_the_end_of_the_system_prompt_stands_for_the_whole():
    talk = Talk("gpt-5.1", "openai.chat")

    plans = [talk.send(chat("one " * 60)), talk.send(chat("one " * 60, "two"))]

    assert [plan.keyed for plan in plans] == [0, 0]
    assert plans[1].predicted_read % 128 == 0
    assert plans[1].predicted_read > 1024


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),  # which conversation
        st.sampled_from([5.0, 200.0, 400.0, 4000.0]),
        st.sampled_from([1, 60, 800]),  # words
    ),
    min_size=1,
    max_size=25,
)


@settings(deadline=None, max_examples=80)
@given(STEPS, st.booleans())
def test_whatever_is_sent_a_plan_can_be_sent(steps, is_full):
    """Never more than four marks, in their order, none of an hour behind one of five minutes,
    and in the cautious mode none behind what was sent before."""
    talk = Talk(is_full=is_full)
    conversations = {number: [] for number in range(4)}

    for number, gap, words in steps:
        contents = conversations[number]
        contents.append(f"{number} says {len(contents)} " * words)
        plan = talk.send(said(*contents, system=f"{number % 2} {LONG}"), gap=gap)
        contents.append("yes")

        blocks = [mark.block for mark in plan.marks]
        ttls = [mark.ttl for mark in plan.marks]
        assert len(plan.marks) <= 4
        assert blocks == sorted(set(blocks))
        assert ttls == sorted(ttls, key=["1h", "5m"].index)
        assert is_full or all(block <= talk.ticket.shared for block in blocks)


def test_conversations_that_end_after_two_turns_are_no_longer_marked():
    """Each is sent twice, and what the second one writes is never read."""
    talk, last = Talk(), []
    for number in range(12):
        system = f"{number} {LONG}"
        talk.send(said("one " * 60, system=system))
        last.append(talk.send(said("one " * 60, "yes", "two", system=system)))

    assert last[0].marks
    assert [plan.marks for plan in last[-3:]] == [()] * 3


@pytest.mark.parametrize(
    ("more", "hit"), [pytest.param(19, 3, id="the-last"), pytest.param(20, 2, id="one-too-far")]
)
def test_a_mark_finds_what_is_at_most_nineteen_positions_before_it(more, hit):
    """The caller's own four, so that none of ours stands in between."""
    system = [text(LONG, "5m"), text("b " * 900, "5m"), text("c " * 900, "5m")]
    fields = {"system": system, "cache_control": {"type": "ephemeral"}}
    talk = Talk()
    talk.send(messages("one", **fields))

    assert talk.send(messages("one", *["more"] * more, **fields)).hit == hit
