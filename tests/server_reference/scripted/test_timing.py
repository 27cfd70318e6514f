from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_reference.scripted.answers import Answer
from server_reference.scripted.compile_parts import Event
from server_reference.scripted.ops import Body, Wait
from server_reference.scripted.timing import cuts, duration, writes

EVENTS = [Event(b"a: 1\n\n"), Event("b: é\n\n".encode(), True), Event(b"c: 3\n\n", True)]
WHOLE = b"".join(event.data for event in EVENTS)


def played(**settings):
    return writes(Answer(**settings), EVENTS, Random(1))


def datas(ops):
    return [op.data for op in ops if isinstance(op, Body)]


def waits(ops):
    return [op.seconds for op in ops if isinstance(op, Wait)]


def test_each_event_is_a_write():
    assert played(split="event") == [Body(event.data) for event in EVENTS]


def test_each_byte_can_be_a_write():
    assert datas(played(split="byte")) == [bytes([byte]) for byte in WHOLE]


def test_a_write_can_end_inside_each_character():
    at = WHOLE.index("é".encode()) + 1

    assert datas(played(split="character")) == [WHOLE[:at], WHOLE[at:]]


def test_a_write_can_end_inside_each_line_end():
    pieces = datas(played(split="crlf"))

    assert [piece[-1:] for piece in pieces] == [b"\r"] * 6 + [b"\n"]
    assert b"".join(pieces) == WHOLE.replace(b"\n", b"\r\n")


def test_writes_can_have_one_size():
    assert [len(piece) for piece in datas(played(split=4))] == [4, 4, 4, 4, 3]


def test_writes_can_end_at_offsets():
    assert datas(played(split=[1, 10])) == [WHOLE[:1], WHOLE[1:10], WHOLE[10:]]


def test_offsets_past_the_end_are_no_writes():
    assert cuts(b"abc", [2, 3, 9]) == [2]


def test_tokens_are_itl_apart_and_the_rest_follows_at_once():
    assert played(itl=0.5) == [
        Body(EVENTS[0].data),
        Body(EVENTS[1].data),
        Wait(0.5),
        Body(EVENTS[2].data),
    ]


def test_jitter_is_the_same_for_the_same_seed():
    first, again = played(itl=1, jitter=0.5), played(itl=1, jitter=0.5)

    assert waits(first) == waits(again)
    assert 0.5 <= waits(first)[0] <= 1.5 != waits(first)[0]


def test_jitter_goes_both_ways():
    events = [Event(b"a", True)] * 50
    found = waits(writes(Answer(itl=1, jitter=0.5), events, Random(1)))

    assert 0.5 <= min(found) < 0.6
    assert 1.4 < max(found) <= 1.5


def test_a_gap_stands_between_split_writes():
    assert waits(played(split="event", gap=0.1)) == [0.1, 0.1]


def test_a_whole_reply_takes_its_first_token_and_all_gaps():
    assert duration(Answer(ttft=1, itl=0.25), [Event(b"", True)] * 5, Random(1)) == 2.0


@given(split=st.one_of(st.sampled_from(["event", "byte", "character"]), st.integers(1, 30)))
def test_no_split_loses_a_byte(split):
    pieces = datas(played(split=split))

    assert b"".join(pieces) == WHOLE
    assert all(pieces)


@pytest.mark.parametrize("split", [None, "event", 3])
def test_nothing_to_send_is_one_empty_write(split):
    assert writes(Answer(split=split), [Event(b"")], Random(1)) == [Body(b"")]
