"""What a server of HTTP/2 must not do: it ends its stream, or the connection, and never more."""

from __future__ import annotations

import contextlib
import random

import pytest

from smartclient.net.failures import BadReplyError

from .h2_server import OK, Ends, frame

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING = range(7)
WINDOW_UPDATE, CONTINUATION = 8, 9


@pytest.mark.parametrize(
    "head",
    [
        pytest.param([(b"a", b"b")], id="no-status"),
        pytest.param([(b":status", b"20")], id="short-status"),
        pytest.param([(b":status", b"abc")], id="status-in-letters"),
        pytest.param([(b":status", b"099")], id="status-below-100"),
        pytest.param([*OK, (b"A", b"b")], id="upper-case"),
        pytest.param([*OK, (b"a b", b"c")], id="space-in-a-name"),
        pytest.param([*OK, (b"a", b"b\r\nc: d")], id="line-break"),
        pytest.param([*OK, (b"", b"b")], id="no-name"),
    ],
)
def test_malformed_head_ends_its_stream_alone(head):
    ends = Ends(validates=False)
    bad, good = ends.ask(), ends.ask()

    ends.server.send_headers(bad.number, head)
    ends.server.send_headers(good.number, OK, end_stream=True)
    ends.pump()

    assert (bad.failure.kind, bad.status) == ("protocol", None)
    assert (good.failure, good.is_complete) == (None, True)


def test_length_that_is_not_kept_ends_the_connection():
    ends = Ends()
    ends.ask()
    ends.server.send_headers(1, [*OK, (b"content-length", b"9")])

    with pytest.raises(BadReplyError, match=r"broke HTTP/2.*9") as error:
        ends.client.receive(ends.server.data_to_send() + frame(DATA, 1, 1, b"short"), 0.0)

    assert error.value.kind == "protocol"


def test_stream_that_ends_without_a_head_is_an_error():
    """Up to 4.1 h2 lets it pass; later ones end the connection."""
    ends = Ends()
    reply = ends.ask()

    ends.client._complete(reply)

    assert (reply.failure.kind, reply.is_complete) == ("protocol", False)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(frame(HEADERS, 4, 1, b"\xff\xff\xff"), "protocol", id="undecodable-fields"),
        pytest.param(frame(PUSH, 4, 1, b"\0\0\0\2\x82"), "protocol", id="push"),
        pytest.param(frame(DATA, 0, 5, b"x"), "protocol", id="idle-stream"),
        pytest.param(frame(PING, 0, 1, b"12345678"), "protocol", id="ping-on-a-stream"),
        pytest.param(b"\0\x40\1" + bytes(6), "protocol", id="frame-too-large"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "protocol", id="http1"),
    ],
)
def test_what_is_no_http2_ends_the_connection(data, kind):
    ends = Ends()
    ends.ask()

    with pytest.raises(BadReplyError) as error:
        ends.client.receive(data, 0.0)

    assert error.value.kind == kind


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(frame(PING, 0, 0, b"12345678"), id="ping"),
        pytest.param(frame(SETTINGS, 0, 0), id="settings"),
        pytest.param(frame(RESET, 0, 1, b"\0\0\0\x08"), id="reset"),
        pytest.param(frame(PRIORITY, 0, 3, bytes(5)), id="priority"),
        pytest.param(frame(DATA, 0, 1), id="empty-data"),
        pytest.param(frame(200, 0, 0), id="unknown"),
        pytest.param(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), id="windows"),
        pytest.param(frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"), id="windows-of-a-stream"),
    ],
)
def test_flood_of_frames_without_use_is_bounded(flood):
    ends = Ends()
    ends.ask()
    ends.server.send_headers(1, OK)
    ends.pump()

    ends.client.receive(flood * 900, 0.0)
    with pytest.raises(BadReplyError, match="of no use") as error:
        ends.client.receive(flood * 200, 0.0)

    assert error.value.kind == "limit"


def test_flood_of_heads_that_nobody_asked_for_is_bounded():
    ends = Ends()
    ends.ask()

    with pytest.raises(BadReplyError, match="of no use"):
        ends.client.receive(
            b"".join(frame(HEADERS, 5, 2 * number, b"\x88") for number in range(1, 1200)), 0.0
        )


def test_windows_that_are_given_back_for_what_was_sent_are_no_flood():
    ends = Ends()
    for _ in range(40):
        ends.ask(body=b"x" * 1000)
        ends.client.receive(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 40, 0.0)


def test_a_server_that_overflows_a_window_gets_no_more_requests_on_that_connection():
    ends = Ends()
    bad, good = ends.ask(), ends.ask()
    for reply in (bad, good):
        ends.server.send_headers(reply.number, OK)
    ends.pump()

    ends.client.receive(frame(DATA, 0, bad.number, b"x" * 16_000) * 17, 0.0)

    assert (bad.failure.kind, good.failure, ends.client.has_room) == ("protocol", None, False)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(frame(HEADERS, 4, 1, b"\x7f" + b"\xff" * 15_000), id="quoted-at-length"),
        pytest.param(frame(DATA, 0, 9, b"x"), id="a-number-alone"),
    ],
)
def test_what_broke_http2_is_said_in_a_few_words(data):
    ends = Ends()
    ends.ask()

    with pytest.raises(BadReplyError, match=r"broke HTTP/2: [A-Z][A-Za-z]+ ") as error:
        ends.client.receive(data, 0.0)

    assert len(str(error.value)) < 300


def test_flood_of_interim_replies_is_bounded():
    ends = Ends()
    ends.ask()
    for _ in range(1100):
        ends.server.send_headers(1, [(b":status", b"103")])

    with pytest.raises(BadReplyError, match="of no use"):
        ends.client.receive(ends.server.data_to_send(), 0.0)


def test_frames_without_use_are_no_flood_between_those_with_it_or_over_time():
    ends = Ends()
    reply = ends.ask()
    ends.server.send_headers(1, OK)
    ends.pump()

    for second in range(10):
        ends.client.receive((frame(DATA, 0, 1) + frame(DATA, 0, 1, b"x")) * 2000, 10.0 * second)
        ends.client.receive(frame(PING, 0, 0, b"12345678") * 900, 10.0 * second)
        reply.take()
        ends.client.credit(reply)

    assert reply.failure is None


def test_endless_header_block_is_bounded():
    ends = Ends()
    ends.ask()
    block = (
        frame(HEADERS, 0, 1, b"\0\1a\1b" * 2000) + frame(CONTINUATION, 0, 1, b"\0\1a\1b" * 2000) * 8
    )

    with pytest.raises(BadReplyError, match="64 KiB of header fields") as error:
        ends.client.receive(block, 0.0)

    assert error.value.kind == "limit"


def test_header_list_that_unpacks_to_more_than_the_limit_is_refused():
    ends = Ends()
    ends.ask()
    ends.server.send_headers(1, [*OK, (b"a", b"b" * 4000)] + [(b"a", b"b" * 4000)] * 20)

    with pytest.raises(BadReplyError, match="limit") as error:
        ends.client.receive(ends.server.data_to_send(), 0.0)

    assert error.value.kind == "limit"


@pytest.mark.parametrize("seed", range(60))
def test_frames_at_random_are_refused_but_never_break_us(seed):
    chance = random.Random(seed)
    ends = Ends()
    replies = [ends.ask() for _ in range(3)]
    ends.server.send_headers(1, OK)
    ends.pump()

    with contextlib.suppress(BadReplyError):
        for _ in range(40):
            payload = chance.choice([chance.randbytes(chance.randrange(40)), b"\x88", b""])
            kind, flags = chance.randrange(11), chance.choice([0, 1, 4, 5, 8, 0x20, 0x2D])
            data = frame(kind, flags, chance.choice([0, 1, 1, 3, 5, 7]), payload)
            ends.client.receive(data[: chance.choice([len(data), len(data), 5])], 0.0)
            ends.client.pending()

    assert all(reply.failure is None or not reply.is_complete for reply in replies)
