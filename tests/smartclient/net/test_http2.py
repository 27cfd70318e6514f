"""Our state of HTTP/2 against h2 on the other end: bytes in any pieces, streams in any order."""

from __future__ import annotations

import pytest
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from smartclient.net.http2 import STREAM_WINDOW, Http2
from smartclient.net.http2_reply import StreamReply
from smartclient.net.http2_request import fields_of

from .h2_server import OK, Ends, a_call, frame, goaway

COUNTED = [*OK, (b"content-length", b"8")]


def test_request_arrives_whole():
    ends = Ends()

    ends.ask()

    [request] = ends.of(RequestReceived)
    assert (b":path", b"/v1/messages?beta=true") in request.headers
    assert (b"x-api-key", b"a-key") in request.headers
    assert [event.data for event in ends.of(DataReceived)] == [b"{}"]
    assert len(ends.of(StreamEnded)) == 1


def test_request_without_a_body_ends_with_its_head():
    ends = Ends()

    ends.ask(method="GET", body=b"")

    [request] = ends.of(RequestReceived)
    assert request.stream_ended is not None


def replied(head: list, *pieces: bytes, pad: int | None = None) -> bytes:
    """The bytes of a reply on stream 1, as its server sends them."""
    ends = Ends()
    ends.ask()
    ends.server.send_headers(1, head)
    for piece in pieces:
        ends.server.send_data(1, piece, pad_length=pad)
    ends.server.end_stream(1)
    return ends.server.data_to_send()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 9, 10, 50, 1000])
@pytest.mark.parametrize(
    ("head", "pad"),
    [
        pytest.param(OK, None, id="of-unknown-length"),
        pytest.param(COUNTED, None, id="of-known-length"),
        pytest.param(OK, 5, id="padded"),
    ],
)
def test_reply_is_the_same_in_whatever_pieces_it_comes(size, head, pad):
    data = replied(head, b"some", b"", b"body", pad=pad)
    ends = Ends()
    reply = ends.ask()

    for at in range(0, len(data), size):
        ends.client.receive(data[at : at + size], 0.0)

    assert (reply.status, reply.is_complete, reply.take()) == (200, True, b"somebody")
    assert reply.headers.get("content-type") == "text/event-stream"
    assert ends.client.streams == {}


def test_interim_replies_are_skipped_and_trailers_end_a_reply():
    ends = Ends()
    reply = ends.ask()
    ends.server.send_headers(1, [(b":status", b"103"), (b"link", b"x")])
    ends.server.send_headers(1, OK)
    ends.server.send_headers(1, [(b"grpc-status", b"0")], end_stream=True)

    ends.pump()

    assert (reply.status, reply.is_complete, reply.headers.get("link")) == (200, True, None)


def test_reply_to_head_has_no_body_whatever_its_length_says():
    ends = Ends()
    reply = ends.ask(method="HEAD", body=b"")
    ends.server.send_headers(1, [*OK, (b"content-length", b"9")], end_stream=True)

    ends.pump()

    assert (reply.is_complete, reply.take()) == (True, b"")


@given(st.data())
def test_streams_in_any_order_keep_apart(data):
    ends = Ends()
    replies = [ends.ask() for _ in range(4)]
    sent = {reply.number: b"" for reply in replies}
    for reply in replies:
        ends.server.send_headers(reply.number, data.draw(st.sampled_from([OK, OK[:1]])))
    for number in data.draw(st.lists(st.sampled_from(list(sent)), max_size=12)):
        piece = data.draw(st.binary(max_size=30))
        sent[number] += piece
        ends.server.send_data(number, piece)
    for number in sent:
        ends.server.end_stream(number)
    stream, size = ends.server.data_to_send(), data.draw(st.integers(1, 60))

    for at in range(0, len(stream), size):
        ends.client.receive(stream[at : at + size], 0.0)

    assert [reply.take() for reply in replies] == list(sent.values())
    assert all(reply.is_complete for reply in replies)


# Windows.


def filled(ends: Ends, reply: StreamReply, head: list = OK) -> None:
    """As much of a reply as the client's windows let the server send."""
    ends.server.send_headers(reply.number, head)
    fill(ends, reply)


def fill(ends: Ends, reply: StreamReply) -> int:
    total = 0
    while (window := ends.server.local_flow_control_window(reply.number)) > 0:
        piece = b"x" * min(window, 16_384)
        ends.server.send_data(reply.number, piece)
        total += len(piece)
        ends.pump()
    return total


LONG = [*OK, (b"content-length", b"9999999")]
OF_EITHER_LENGTH = pytest.mark.parametrize(
    "head", [pytest.param(OK, id="uncounted"), pytest.param(LONG, id="counted")]
)


@pytest.mark.parametrize(
    "head", [pytest.param(OK, id="uncounted"), pytest.param(LONG, id="counted")]
)
def test_what_waits_for_its_reader_is_bounded_and_goes_on_when_it_is_taken(head):
    ends = Ends()
    reply = ends.ask()
    filled(ends, reply, head)
    assert reply.unread == STREAM_WINDOW

    reply.take()
    ends.client.credit(reply)
    ends.pump()

    assert fill(ends, reply) == STREAM_WINDOW


@pytest.mark.parametrize(
    "head", [pytest.param(OK, id="uncounted"), pytest.param(LONG, id="counted")]
)
def test_readers_that_never_come_do_not_stop_the_others(head):
    """More streams than the connection's window would hold stand full, and one goes on."""
    ends = Ends()
    for _ in range(70):
        filled(ends, ends.ask(), head)

    reply = ends.ask()
    filled(ends, reply, head)

    assert reply.unread == STREAM_WINDOW


def test_window_of_what_comes_for_a_dead_stream_is_given_back():
    ends = Ends()
    for _ in range(80):
        reply = ends.ask()
        ends.server.send_headers(reply.number, OK)
        ends.pump()
        late = b"".join(frame(0, 0, reply.number, b"x" * 16_384) for _ in range(16))
        ends.client.reset(reply)
        ends.client.receive(late, 0.0)
        ends.server.receive_data(ends.client.pending())

    reply = ends.ask()
    filled(ends, reply)
    assert reply.unread == STREAM_WINDOW


def test_server_that_ignores_the_window_loses_that_stream_alone():
    ends = Ends()
    greedy, other = ends.ask(), ends.ask()
    filled(ends, greedy)

    ends.client.receive(frame(0, 0, greedy.number, b"x"), 0.0)
    ends.pump()
    filled(ends, other)

    assert "window" in str(greedy.failure)
    assert [event.error_code for event in ends.of(StreamReset)] == [3]
    assert other.unread == STREAM_WINDOW


def test_upload_stops_at_the_window_and_goes_on_with_it():
    ends = Ends()
    reply, body = StreamReply("POST"), memoryview(b"x" * 100_000)
    ends.client.open(reply, fields_of(a_call(body=bytes(body))), ends=False)

    done = ends.client.send(reply, body, ends=True)
    assert ends.client.send(reply, body[done:], ends=True) == 0
    assert done <= 65_535
    ends.pump()
    ends.server.increment_flow_control_window(200_000)
    ends.server.increment_flow_control_window(200_000, 1)
    ends.pump()

    assert ends.client.has_credit
    assert done + ends.client.send(reply, body[done:], ends=True) == 100_000
    assert reply.has_sent_all


def test_window_that_became_negative_is_waited_for():
    ends = Ends()
    reply, body = StreamReply("POST"), memoryview(b"x" * 60_000)
    ends.client.open(reply, fields_of(a_call(body=bytes(body))), ends=False)
    ends.client.send(reply, body[:50_000], ends=False)
    ends.pump()

    ends.server.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    ends.pump()

    assert ends.client.send(reply, body, ends=True) == 0


def test_windows_are_given_back_in_few_frames():
    ends = Ends()
    reply = ends.ask()
    filled(ends, reply)
    for _ in range(8):
        reply.take()
        ends.client.credit(reply)
        ends.pump()
        fill(ends, reply)

    given_back = [event for event in ends.of(WindowUpdated) if event.stream_id]
    assert len(given_back) == 8


# How streams and connections end.


def test_first_limit_is_a_hundred_and_what_the_server_says_after_that():
    ends = Ends()
    assert ends.client.most == 100

    ends.server.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    ends.pump()
    ends.ask()

    assert (ends.client.most, ends.client.has_room) == (1, False)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_goaway_tells_what_was_not_processed_in_whatever_pieces_it_comes(size):
    ends = Ends()
    first, second = ends.ask(), ends.ask()
    data = goaway(first.number, 11)

    for at in range(0, len(data), size):
        ends.client.receive(data[at : at + size], 0.0)
    filled(ends, first)

    assert (ends.client.is_used_up, ends.client.has_room) == (True, False)
    assert (second.failure.kind, first.failure) == ("refused", None)
    assert "ENHANCE_YOUR_CALM" in str(second.failure)
    assert first.unread == STREAM_WINDOW


def test_second_goaway_may_name_fewer():
    ends = Ends()
    first, second = ends.ask(), ends.ask()

    ends.client.receive(goaway(2**31 - 1), 0.0)
    assert second.failure is None
    ends.client.receive(goaway(first.number), 0.0)

    assert (first.failure, second.failure.kind) == (None, "refused")


def test_reply_that_has_begun_is_not_unprocessed_whatever_the_server_says():
    ends = Ends()
    reply = ends.ask()
    ends.server.send_headers(1, OK)
    ends.pump()

    ends.client.receive(goaway(0), 0.0)

    assert reply.failure.kind == "read"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(7, "refused", id="refused"),
        pytest.param(8, "closed", id="cancelled"),
        pytest.param(13, "unsupported", id="wants-http1"),
        pytest.param(99, "closed", id="unknown"),
    ],
)
def test_reset_says_what_it_was(code, kind):
    ends = Ends()
    reply = ends.ask()

    ends.server.reset_stream(1, code)
    ends.pump()

    assert (reply.failure.kind, ends.client.streams) == (kind, {})


def test_reply_that_ends_before_its_request_is_whole_and_the_rest_is_not_sent():
    ends = Ends()
    reply = StreamReply("POST")
    ends.client.open(reply, fields_of(a_call()), ends=False)
    ends.pump()
    ends.server.send_headers(1, [(b":status", b"413")], end_stream=True)
    ends.pump()

    ends.client.reset(reply)
    ends.pump()

    assert (reply.status, reply.is_complete, reply.failure) == (413, True, None)
    assert [event.error_code for event in ends.of(StreamReset)] == [8]


def test_last_stream_number_uses_a_connection_up():
    state = Http2(0.0)
    state._h2.highest_outbound_stream_id = 2**31 - 3

    state.open(StreamReply("GET"), fields_of(a_call()), ends=True)

    assert (state.is_used_up, state.has_room) == (True, False)


def test_ping_is_answered():
    ends = Ends()
    ends.server.ping(b"12345678")

    ends.pump()
    ends.client.ping()
    ends.pump()

    assert [type(event).__name__ for event in ends.seen[-2:]] == ["PingAckReceived", "PingReceived"]
