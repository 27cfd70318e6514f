from __future__ import annotations

import json
from itertools import chain, count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_reference.api.events import (
    ArgumentsDelta,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from server_reference.gateway.tool_text import CLOSE, OPEN, ToolText

ROME = '{"name": "weather", "arguments": {"city": "Rome"}}'


def written(body=ROME):
    return f"{OPEN}\n{body}\n{CLOSE}"


def parsed(*pieces, **fields):
    """Every piece's events, and those of the end."""
    ids = count(1)
    text = ToolText(["weather", "time"], new_id=lambda: f"id{next(ids)}", **fields)
    told = [text.feed(piece) for piece in pieces]
    return [*told, text.finish()]


def told(*pieces, **fields):
    """All events with their texts joined: text, and calls as name and arguments."""
    found = []
    for event in chain.from_iterable(parsed(*pieces, **fields)):
        match event:
            case TextDelta(text=text) if found and isinstance(found[-1], str):
                found[-1] += text
            case TextDelta(text=text):
                found.append(text)
            case ToolCallStarted():
                found.append([event.name, ""])
            case ArgumentsDelta():
                found[-1][1] += event.text
            case ToolCallFinished():
                found[-1] = (found[-1][0], json.loads(found[-1][1]))
    return found


def test_a_call_is_told_as_three_events():
    (events, last) = parsed(written())

    assert events == [
        ToolCallStarted("id1", "weather"),
        ArgumentsDelta('{"city": "Rome"}'),
        ToolCallFinished(),
    ]
    assert last == []


def test_text_around_calls_stays_in_its_order():
    text = f"Let me look.\n{written()}\n{written(ROME.replace('Rome', 'Oslo'))}\nDone."

    assert told(text) == [
        "Let me look.",
        ("weather", {"city": "Rome"}),
        ("weather", {"city": "Oslo"}),
        "\nDone.",
    ]


@pytest.mark.parametrize("is_held", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 20])
def test_pieces_of_any_size_say_the_same(size, is_held):
    body = '{"name": "time", "arguments": {"a": "</tool_call> \\" } {", "b": [1, {"c": {}}]}}'
    text = f"a < b <tool {written(body)} {written()} and <tool_calls>"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    assert told(*pieces, is_held=is_held) == told(text)
    assert [one[0] for one in told(text)] == ["a", "time", "weather", " "]


PARTS = [
    OPEN,
    CLOSE,
    "<tool",
    "{",
    "}",
    '"',
    "\\",
    " ",
    "\n",
    '{"name": "rain"',
    "a",
    "é",
    "[",
    "]",
]


@given(st.lists(st.sampled_from(PARTS), max_size=40), st.booleans())
def test_whatever_is_no_call_is_told_as_it_came(pieces, is_held):
    found = told(*pieces, is_held=is_held)

    assert "".join(found) == "".join(pieces)


def test_only_what_may_be_a_call_is_held_back():
    first, second, third, last = parsed("a <", "b <tool", "_calling")

    assert (first, second) == ([TextDelta("a")], [TextDelta(" <b")])
    assert (third, last) == ([TextDelta(" <tool_calling")], [])


def test_a_blank_that_no_call_follows_is_told():
    assert parsed("a  ", "b ") == [[TextDelta("a")], [TextDelta("  b")], [TextDelta(" ")]]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("call weather", id="no-json"),
        pytest.param('{"name": "weather", "arguments": {"city": Rome}}', id="broken-json"),
        pytest.param('{"name": "weather", "arguments": "Rome"}', id="arguments-no-object"),
        pytest.param('{"name": "weather", "arguments": {"a": NaN}}', id="not-a-number"),
        pytest.param('{"name": "rain", "arguments": {}}', id="unknown-tool"),
        pytest.param('{"name": ["weather"], "arguments": {}}', id="name-no-text"),
        pytest.param('{"arguments": {}}', id="no-name"),
        pytest.param('{"name": "weather", "arguments": {"a": ' + "[" * 5000 + "}}", id="deep"),
        pytest.param('{"name": "weather", "arguments": {"city": "Ro', id="cut"),
    ],
)
def test_what_turns_out_to_be_no_call_is_text(body):
    assert told("Well: ", written(body)) == [f"Well: {written(body)}"]


def test_a_call_after_a_broken_one_is_found():
    assert told(written("broken"), written()) == [written("broken"), ("weather", {"city": "Rome"})]


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        pytest.param('{"name": "time", "parameters": {"a": 1}}', {"a": 1}, id="as-parameters"),
        pytest.param('{"arguments": {"a": 1}, "name": "time"}', {"a": 1}, id="name-last"),
        pytest.param('{"name": "time"}', {}, id="no-arguments"),
        pytest.param('{"name": "time", "arguments": {"a": "x\ny"}}', {"a": "x\ny"}, id="raw-break"),
    ],
)
def test_what_models_write_instead_is_understood(body, arguments):
    assert told(written(body)) == [("time", arguments)]


@pytest.mark.parametrize("is_held", [False, True], ids=["free", "held"])
def test_half_a_surrogate_pair_is_told_as_the_escape_that_it_is(is_held):
    arguments = r'{"\udc00": "\ud83d"}'
    text = written(f'{{"name": "time", "arguments": {arguments}}}')

    (_, delta, _), _ = parsed(text, is_held=is_held)

    assert delta == ArgumentsDelta(arguments)
    assert delta.text.isascii()


def test_a_call_whose_end_mark_is_missing_is_one():
    """The mark may be where the engine was asked to stop."""
    assert told(f"{OPEN}\n{ROME}\n") == [("weather", {"city": "Rome"})]
    assert told(f"{OPEN}{ROME}\n</tool_") == [("weather", {"city": "Rome"})]


def test_a_held_call_is_told_as_it_comes():
    pieces = [f'{OPEN}\n{{"name": "wea', 'ther", "arguments": {"city"', ': "Ro', 'me"}}\n', CLOSE]

    named, started, more, finished, closed, last = parsed(*pieces, is_held=True)

    assert started == [ToolCallStarted("id1", "weather"), ArgumentsDelta('{"city"')]
    assert more == [ArgumentsDelta(': "Ro')]
    assert finished == [ArgumentsDelta('me"}'), ToolCallFinished()]
    assert named == closed == last == []


def test_a_held_call_that_is_cut_never_finishes():
    first, last = parsed(f'{OPEN}\n{{"name": "weather", "arguments": {{"city": "Ro', is_held=True)

    assert first == [ToolCallStarted("id1", "weather"), ArgumentsDelta('{"city": "Ro')]
    assert last == []


def test_events_are_of_the_answer():
    (events, _) = parsed(f"a {written()}", index=3)

    assert {event.index for event in events} == {3}
