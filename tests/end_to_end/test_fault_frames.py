"""The frames of each fault of HTTP/2, as a raw client sees them."""

from __future__ import annotations

import pytest

import server_reference
from server_reference.scripted import Answer
from server_reference.scripted.faults import fault
from server_reference.scripted.ops import Body, End, Head
from tests.end_to_end.fault_bytes import request
from tests.end_to_end.raw_http2 import RawHttp2
from tests.end_to_end.scripted_raw import RawClient

ANSWER = [
    Head(200, (("content-type", "text/event-stream"),)),
    Body(b"data: 1\n\n"),
    Body(b"data: 2\n\n"),
    End(),
]
HEAD = ("HEADERS", 1, {":status": "200", "content-type": "text/event-stream"})
ONE, TWO = ("DATA", 1, b"data: 1\n\n"), ("DATA", 1, b"data: 2\n\n")
WHOLE = [HEAD, ONE, TWO, ("END", 1)]
MAX_STREAMS, INITIAL_WINDOW = 3, 4


def then(name, **parameters):
    """A function that plays `ANSWER` broken by the fault."""
    made = fault(name, **parameters)
    return lambda received: list(made.apply(ANSWER, received))


def frames(name, *last, **parameters):
    """What comes after the connection's own beginning, and how the connection ended."""
    with server_reference.scripted(then(name, **parameters)) as server, RawHttp2(server) as client:
        client.ask()
        seen = client.until(*last) if last else client.to_the_end()
        return [one for one in seen if one[0] != "WINDOW"], client.closed_by


STREAMS = [
    pytest.param("rst_stream", {}, ("RST",), [HEAD, ONE, ("RST", 1, 8)], id="rst-stream"),
    pytest.param(
        "rst_stream", {"code": 11, "after": 0}, ("RST",), [HEAD, ("RST", 1, 11)], id="rst-calm"
    ),
    pytest.param("refused_stream", {}, ("RST",), [("RST", 1, 7)], id="refused"),
    pytest.param("goaway", {}, ("GOAWAY",), [("GOAWAY", 0, 0)], id="goaway"),
    pytest.param("goaway", {"code": 11}, ("GOAWAY",), [("GOAWAY", 0, 11)], id="goaway-calm"),
    pytest.param(
        "goaway_graceful", {}, ("END", 1), [("GOAWAY", 1, 0), *WHOLE], id="goaway-graceful"
    ),
    pytest.param(
        "low_max_streams", {}, ("END", 1), [("SETTINGS", {MAX_STREAMS: 1}), *WHOLE], id="streams"
    ),
    pytest.param(
        "shrunk_window", {}, ("END", 1), [("SETTINGS", {INITIAL_WINDOW: 0}), *WHOLE], id="window"
    ),
    pytest.param("starved_window", {}, ("END", 1), WHOLE, id="starved"),
    pytest.param(
        "empty_data_frames",
        {},
        ("END", 1),
        [HEAD, ("DATA", 1, b""), ONE, ("DATA", 1, b""), TWO, ("END", 1)],
        id="empty-data",
    ),
]


@pytest.mark.parametrize(("name", "parameters", "last", "expected"), STREAMS)
def test_a_connection_carries_exactly_these_frames(name, parameters, last, expected):
    assert frames(name, *last, **parameters) == (expected, None)


def test_goaway_comes_before_the_end_of_the_connection():
    assert frames("goaway_then_close") == ([("GOAWAY", 0, 0)], "fin")


def test_a_starved_upload_gets_no_window():
    with server_reference.scripted(then("starved_window")) as server, RawHttp2(server) as client:
        client.ask()
        client.until("END", 1)
        client.begin(3)
        client.data(3, b"x" * 16_384)
        client.data(3, b"x" * 16_384)
        client.ping()
        seen = client.until("PONG")

    assert [one for one in seen if one[0] == "WINDOW"] == []


def test_a_body_fills_the_window():
    """Nothing else comes once 65,535 bytes have, until the client grants more."""
    with (
        server_reference.scripted(then("window_filling_body", mib=0.25)) as server,
        RawHttp2(server) as client,
    ):
        client.ask()
        seen = []
        while sum(len(one[2]) for one in seen) < 65_535:
            seen += [one for one in [client.frame()] if one[0] == "DATA"]
        client.ping()
        client.until("PONG")
        client.grant(0, 2**20)
        client.grant(1, 2**20)
        rest = client.until("END", 1)

    data = b"".join(one[2] for one in seen + rest if one[0] == "DATA")
    assert data == (b":" + b" " * (16 * 1024 - 3) + b"\n\n") * 16 + ONE[2] + TWO[2]


def test_a_fault_of_http2_needs_it():
    with server_reference.scripted(Answer("x") | fault("goaway")) as server:
        client = RawClient(server)
        client.send(request())

        assert b"it needs HTTP/2" in client.until(b"}}")
        client.socket.close()


TESTED = {one.values[0] for one in STREAMS} | {
    "goaway_then_close",
    "window_filling_body",
}
