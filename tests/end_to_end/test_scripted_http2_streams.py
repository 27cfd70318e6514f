"""The scripted server's HTTP/2: windows, many streams, and streams that the client abandons."""

from __future__ import annotations

import threading

import pytest

import server_reference
from server_reference.scripted import ManualClock, rule
from server_reference.scripted.ops import Body, End, HalfClose, Head, Pause, Wait
from tests.end_to_end.http2_player import ANSWERED, HEAD, OK
from tests.end_to_end.raw_http2 import RawHttp2

# Flow control and many streams.


@pytest.mark.parametrize("op", [Wait(0), Body(b"")], ids=["waits", "at-once"])
def test_a_body_goes_as_far_as_the_window_of_its_stream(play, op):
    client = play([Head(200), op, Body(b"abcdef"), End()], settings={4: 4})
    client.ask()
    first = client.until("DATA", 1, b"abcd")

    client.grant(1, 100)

    assert first[-1] == ("DATA", 1, b"abcd")
    assert client.until("END") == [("DATA", 1, b"ef"), ("END", 1)]


def test_a_body_goes_as_far_as_the_window_of_the_connection(play):
    client = play([Head(200), Body(bytes(70_000)), End()], settings={4: 2**20})
    client.ask()
    seen = 0
    while seen < 65_535:
        seen += sum(len(one[2]) for one in client.until("DATA") if one[0] == "DATA")

    client.grant(0, 10_000)

    rest = client.until("END")
    assert seen == 65_535
    assert sum(len(one[2]) for one in rest[:-1]) == 70_000 - 65_535


def test_a_larger_initial_window_lets_open_streams_go_on(play):
    client = play([Head(200), Body(b"abcdef"), End()], settings={4: 4})
    client.ask()
    client.until("DATA", 1, b"abcd")

    client.settings({4: 100})

    assert client.until("END") == [("DATA", 1, b"ef"), ("END", 1)]


def test_a_stream_without_window_holds_up_no_other(play):
    client = play([rule([Head(200), Body(b"abcdef"), End()], path="/big"), rule(OK)])
    client.settings({4: 2})
    client.ask(1, "/big")
    client.until("DATA", 1, b"ab")

    client.ask(3)

    seen = client.until("END", 3)
    assert seen == [("HEADERS", 3, {":status": "200"}), ("DATA", 3, b"ok"), ("END", 3)]


def test_a_large_body_is_cut_at_the_largest_frame(play):
    client = play([Head(200), Body(bytes(20_000)), End()])

    client.ask()

    sizes = [len(one[2]) for one in client.until("END") if one[0] == "DATA"]
    assert sizes == [16_384, 20_000 - 16_384]


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_body_has_none(play, status):
    client = play([Head(status), Body(b"not sent"), End()])

    client.ask()

    assert client.until("END") == [("HEADERS", 1, {":status": str(status)}), ("END", 1)]


def test_a_head_is_answered_without_body(play):
    client = play(OK)

    client.ask(method="HEAD")

    assert client.until("END") == [HEAD, ("END", 1)]


def test_informational_heads_go_before_the_reply(play):
    client = play([Head(103, (("link", "</a>"),)), *OK])

    client.ask()

    early = ("HEADERS", 1, {":status": "103", "link": "</a>"})
    assert client.until("END") == [early, *ANSWERED]


def test_who_expects_100_is_told_to_continue(play):
    client = play(OK)
    client.send(client.head(1, "/", "POST", ("expect", "100-continue"), ends=False))
    told = client.until("HEADERS")

    client.data(1, b"body", ends=True)

    assert told == [("HEADERS", 1, {":status": "100"})]
    assert client.until("END") == ANSWERED


def test_a_request_too_large_is_refused_and_the_connection_lives(play, watcher):
    client = play(OK, max_body_bytes=10)
    client.begin(1)

    client.data(1, bytes(11))

    refused = ("HEADERS", 1, {":status": "413", "content-length": "0"})
    assert client.until("RST") == [refused, ("RST", 1, 0)]
    client.ask(3)
    assert client.until("END")[-1] == ("END", 3)


# What a request is.


def test_a_request_is_seen_as_over_http1(play):
    seen = []

    def look(received):
        seen.append(received)
        return OK

    client = play(look)
    client.ask(1, "/a?b=c", ("x-one", "1"), ("cookie", "a=1"), ("cookie", "b=2"), body=b"body")
    client.until("END")

    [one] = seen
    assert (one.method, one.target, one.body) == ("POST", "/a?b=c", b"body")
    assert one.headers == (("host", "a"), ("x-one", "1"), ("cookie", "a=1; b=2"))
    assert (one.protocol, one.stream_id, one.connection) == ("h2", 1, 1)


# The client breaks off.


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([Head(200), Body(b"ok"), Pause()], id="pause"),
        pytest.param([Head(200), Body(b"ok"), Wait(1e9)], id="wait"),
        pytest.param([Head(200), Body(b"ok"), Body(bytes(10**6)), End()], id="window"),
    ],
)
def test_a_stream_that_the_client_resets_is_an_abandoned_reply(play, watcher, script):
    client = play([rule(script, path="/long"), rule(OK)], clock=ManualClock())
    client.ask(1, "/long")
    client.until("DATA", 1)

    client.reset(1)

    watcher.wait_for("ended", 1, "abandoned")
    client.grant(0, 10**6)
    client.ask(3)
    assert client.until("END", 3)[-1] == ("END", 3)


def test_a_request_reset_with_its_last_bytes_is_abandoned_unplayed(play, watcher):
    client = play(OK)
    head = client.head(1, "/", "POST", ends=True).serialize()

    client.sock.sendall(head + b"\0\0\4\3\0\0\0\0\1\0\0\0\x08")

    watcher.wait_for("request", 1, b"")
    client.ask(3)
    assert client.until("END") == [
        ("HEADERS", 3, {":status": "200"}),
        ("DATA", 3, b"ok"),
        ("END", 3),
    ]
    assert ("ended", 1, "abandoned") in watcher.seen


@pytest.mark.parametrize("last", [Pause(), HalfClose()], ids=["pause", "half-close"])
def test_a_script_is_no_longer_played_when_nobody_listens(play, last):
    over = threading.Event()

    async def live(received):
        try:
            yield Head(200)
            yield last
        finally:
            over.set()

    client = play(live)
    client.ask()
    client.until("HEADERS")

    client.close() if isinstance(last, HalfClose) else client.reset(1)

    assert over.wait(10)


def test_streams_that_are_abandoned_make_room(play, watcher):
    client = play([Head(200), Pause()], http2_settings={"MAX_CONCURRENT_STREAMS": 2})

    for number in range(1, 41, 2):
        client.ask(number)
        client.until("HEADERS", number)
        client.reset(number)

    watcher.wait_for("ended", 39, "abandoned")


def test_a_connection_that_the_client_closes_abandons_its_streams(play, watcher):
    client = play([Head(200), Pause()])
    for number in (1, 3):
        client.ask(number)
        client.until("HEADERS", number)

    client.close()

    watcher.wait_for("closed", "h2", "client")
    ends = [one for one in watcher.seen if one[0] == "ended"]
    assert ends == [("ended", 1, "abandoned"), ("ended", 3, "abandoned")]


def test_a_server_that_stops_tells_of_what_it_broke_off(watcher):
    hang = [Head(200), Pause()]
    with (
        server_reference.scripted(hang, observers=[watcher]) as server,
        RawHttp2(server) as client,
    ):
        client.ask()
        client.until("HEADERS")
        server.stop()

    assert watcher.seen[-2:] == [("ended", 1, "stopped"), ("closed", "h2", "stopped")]


def test_a_reply_that_nobody_reads_is_abandoned(play, watcher):
    client = play([Head(200), Body(bytes(30 * 2**20)), End()], settings={4: 2**31 - 1})
    client.grant(0, 2**31 - 1 - 65_535)

    client.ask()
    watcher.wait_for("request", 1, b"")
    client.close()

    watcher.wait_for("ended", 1, "abandoned")
