"""What stands in the place of dropped messages."""

from __future__ import annotations

import pytest

from smartclient.tokens import SummaryError, fit
from smartclient.tokens.summaries import Found, look_up, placed
from tests.smartclient.tokens.conversations import FORMATS, built, faults

every_format = pytest.mark.parametrize("format_", FORMATS)
LONG = [(20, [], 20)] * 20
AGENT = [(30, [(2, 20)] * 60, 0)]
ONE, TWO, THREE = ({"role": "user", "content": text} for text in ("one", "two", "three"))


class Writer:
    """Summarises, and notes what it was asked."""

    def __init__(self, text="So far, so good."):
        self.text, self.asked = text, []

    def __call__(self, dropped):
        self.asked.append(dropped)
        return self.text


def summed(messages, writer, memory, format_="openai.chat", **given):
    given = {"reserve": 100, "limit": 600, "summary_tokens": 30, **given}
    return fit(
        messages, "gpt-4o", endpoint=format_, summarise=writer, memory=memory, **given
    )  # fmt: skip


@every_format
def test_a_summary_joins_the_turn_behind_it(format_):
    kind = "input_text" if format_ == "openai.responses" else "text"

    found = summed(built(format_, LONG), Writer(), {}, format_)

    parts = found.messages[0]["content"]
    assert parts[0] == {"type": kind, "text": "So far, so good."}
    assert parts[1]["text"].startswith("Q")
    assert faults(format_, found.messages) == []
    assert found.tokens <= found.allowed


@every_format
def test_a_summary_of_steps_stands_behind_the_task(format_):
    """What is before it stays as it was, and stays in the cache."""
    messages = built(format_, AGENT)

    found = summed(messages, Writer(), {}, format_)

    parts = [part["text"] for part in found.messages[0]["content"]]
    assert parts == [messages[0]["content"], "So far, so good."]
    assert faults(format_, found.messages) == []


def test_a_message_stays_a_message_of_its_own():
    own = {"role": "developer", "content": "Summary: nothing new."}

    found = summed(built("openai.chat", LONG), Writer(own), {})

    assert found.messages[0] == own
    assert found.summary == own


def test_a_summary_is_asked_for_once():
    writer, memory = Writer(), {}

    for turns in range(16, 21):
        summed(built("openai.chat", LONG[:turns]), writer, memory)

    cuts = summed(built("openai.chat", LONG), writer, memory).num_cuts
    assert len(writer.asked) == len(memory) == cuts


def test_a_summary_stands_for_the_one_before_it_and_what_was_dropped_since():
    writer = Writer()

    found = summed(built("openai.chat", LONG), writer, {})

    later = writer.asked[1:]
    assert later
    assert all(asked[0] == {"role": "user", "content": "So far, so good."} for asked in later)
    assert [one for asked in writer.asked for one in asked if one != later[0][0]] == found.dropped


def test_an_edited_history_is_summarised_anew():
    writer, memory, messages = Writer(), {}, built("openai.chat", LONG)
    cuts = summed(messages, writer, memory).num_cuts

    messages[2] = {"role": "user", "content": "Q1 " + "new " * 20}
    summed(messages, writer, memory)

    assert len(writer.asked) == 2 * cuts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(" ", "a summary must not be empty", id="empty"),
        pytest.param("long " * 100, "up to 10. tokens and summary_tokens is 30", id="long"),
        pytest.param(7, "a text or a message, not int", id="number"),
        pytest.param(None, "a text or a message, not NoneType", id="none"),
    ],
)
def test_a_summary_that_cannot_stand_is_refused_and_not_kept(text, message):
    memory = {}

    with pytest.raises(SummaryError, match=message):
        summed(built("openai.chat", LONG), Writer(text), memory)

    assert memory == {}


def test_what_a_summary_raises_comes_out():
    def fail(dropped):
        raise RuntimeError("no model today")

    memory, messages = {}, built("openai.chat", LONG)

    with pytest.raises(RuntimeError, match="no model today"):
        summed(messages, fail, memory)

    assert (memory, messages) == ({}, built("openai.chat", LONG))


def test_a_caller_that_awaits_is_told_what_to_summarise():
    memory, messages, rounds = {}, built("openai.chat", LONG), 0

    found = summed(messages, None, memory)
    while found.unsummarised:
        memory[found.memory_key] = f"Summary {rounds}"
        found, rounds = summed(messages, None, memory), rounds + 1

    assert rounds == found.num_cuts
    assert found.summary == f"Summary {rounds - 1}"


def test_what_a_caller_put_into_memory_is_checked_too():
    memory, messages = {}, built("openai.chat", LONG)
    memory[summed(messages, None, memory).memory_key] = ""

    with pytest.raises(SummaryError, match="must not be empty"):
        summed(messages, None, memory)


def test_memory_without_any_cut_is_not_touched():
    found = summed(built("openai.chat", LONG[:2]), Writer(), {})

    assert (found.summary, found.unsummarised, found.memory_key) == (None, [], None)


def test_a_summary_that_is_no_good_any_more_is_asked_for_again():
    memory = {look_up([[ONE]], {}, bool).key: "old"}

    found = look_up([[ONE], [TWO]], memory, lambda summary: summary != "old")

    assert found.missing == [ONE]


def test_the_newest_summary_that_is_known_is_built_upon():
    memory = {look_up([[ONE]], {}, bool).key: "first"}

    found = look_up([[ONE], [TWO, THREE]], memory, bool)

    assert found.missing == [{"role": "user", "content": "first"}, TWO, THREE]


def test_nothing_dropped_needs_no_summary():
    assert look_up([], {}, bool) == Found(None, None, [])


def test_a_summary_with_nobody_beside_it_is_a_message():
    answer = {"role": "assistant", "content": "Hello"}

    found = placed([answer], 0, "S", "openai.chat", is_turn=False)

    assert found == [{"role": "user", "content": "S"}, answer]


def test_a_summary_joins_bare_text():
    found = placed(["Hello"], 0, "S", "openai.responses", is_turn=True)

    texts = [part["text"] for part in found[0]["content"]]
    assert texts == ["S", "Hello"]
