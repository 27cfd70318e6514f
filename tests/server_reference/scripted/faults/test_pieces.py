from __future__ import annotations

import pytest

from server_reference.scripted.faults.pieces import Piece, Reply, as_raw
from server_reference.scripted.ops import Body, End, Fin, Head, Raw, Wait

HEAD = Head(200, (("content-type", "text/event-stream"),))
ONE, TWO = b"data: 1\n\n", b"data: 2\n\n"


@pytest.mark.parametrize(
    "writes",
    [
        pytest.param([ONE, TWO], id="event"),
        pytest.param([ONE + TWO], id="at-once"),
        pytest.param([ONE[:3], ONE[3:] + TWO[:1], TWO[1:]], id="odd"),
        pytest.param([bytes([one]) for one in ONE + TWO], id="byte"),
    ],
)
def test_events_are_found_whatever_the_writes_were(writes):
    reply = Reply.of([HEAD, *map(Body, writes), End()])

    assert [piece.data for piece in reply.pieces] == [ONE, TWO]
    assert reply.after == (End(),)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_end_at_any_blank_line(end):
    one = b"data: 1" + end + end

    reply = Reply.of([HEAD, Body(one + one), End()])

    assert [piece.data for piece in reply.pieces] == [one, one]


def test_waits_stay_where_they_were():
    script = [Wait(9), HEAD, Wait(1), Body(ONE), Wait(2), Wait(3), Body(TWO), Wait(4), End()]

    reply = Reply.of(script)

    assert [piece.wait for piece in reply.pieces] == [1, 5]
    whole = [Wait(9), HEAD, Wait(1), Body(ONE), Wait(5), Body(TWO), Wait(4), End()]
    assert reply.script() == whole


def test_early_heads_come_before_the_reply():
    reply = Reply.of([Head(103), HEAD, Body(ONE), End()])

    assert (reply.before, reply.top) == ((Head(103),), HEAD)


def test_an_unfinished_event_is_a_piece_too():
    assert [p.data for p in Reply.of([HEAD, Body(ONE + b"data"), Fin()]).pieces] == [ONE, b"data"]


def test_a_body_that_is_no_stream_is_one_piece():
    reply = Reply.of([Head(200, framing="length", length=6), Body(b"a\n\n"), Body(b"b\n\n"), End()])

    assert (reply.is_stream, reply.body, len(reply.pieces)) == (False, b"a\n\nb\n\n", 1)


def test_a_right_length_stays_right_and_a_wrong_one_wrong():
    right, wrong = (Head(200, framing="length", length=length) for length in (2, 3))

    made = [
        Reply.of([head, Body(b"ok"), End()]).script([Piece(b"fine")])[0] for head in (right, wrong)
    ]

    assert [head.length for head in made] == [4, 3]


def test_an_event_keeps_its_name_under_another_object():
    piece = Piece(b'event: a\ndata: {"x":1}\n\n')

    assert piece.fields == {"x": 1}
    assert piece.with_fields({"y": 2}).data == b'event: a\ndata: {"y":2}\n\n'


def test_raw_bytes_are_those_of_the_framing():
    script = [Head(204, (("a", "b"),)), End()]
    chunked = [Head(200), Body(b"ok"), Wait(1), End()]

    assert as_raw(script) == [Raw(b"HTTP/1.1 204 No Content\r\na: b\r\n\r\n"), End()]
    assert as_raw(chunked)[1:] == [Raw(b"2\r\nok\r\n"), Wait(1), Raw(b"0\r\n\r\n"), End()]
