"""Replies on loopback that nobody reads to the end, and clients that are closed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from smartclient._errors import ExchangeError

from .net_sides import read_all
from .raw_server import CHUNKED, Peer, RawServer


def streaming(peer: Peer) -> None:
    while peer.request() is not None:
        peer.send(CHUNKED + b"5\r\nhello\r\n")


@pytest.mark.parametrize("leave", ["close", "cut", "collected"])
def test_reply_left_unread_stops_the_server_and_frees_its_place(side, leave):
    async def scenario():
        response, _ = await side.client().send(server.url)
        if leave == "close":
            await response.close()
        elif leave == "cut":
            response.cut()
        del response
        await asyncio.sleep(0)
        assert side.counts() == (0, 0, 0)
        assert await asyncio.to_thread(server.wait_closed, 1)

    with RawServer(streaming) as server:
        side.run(scenario)


def test_finished_stream_keeps_its_connection_though_its_end_comes_later(side):
    finished = threading.Event()

    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.send(CHUNKED + b"4\r\ndone\r\n")
            finished.wait(5)
            finished.clear()
            peer.send(b"0\r\n\r\n")

    async def scenario():
        client = side.client()
        for _ in range(10):
            response, timeline = await client.send(server.url)
            assert await response.read() == b"done"
            await response.close(finished=True)
            assert timeline.last_byte is not None
            finished.set()

    with RawServer(script) as server:
        side.run(scenario)

    assert server.num_connections == 1


def test_finished_stream_may_be_closed_twice_before_its_end_comes(side):
    """A reader closes at the terminal event, and its `with` once more."""
    finished = threading.Event()

    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.send(CHUNKED + b"4\r\ndone\r\n")
            finished.wait(5)
            peer.send(b"0\r\n\r\n")

    async def scenario():
        response, _ = await side.client().send(server.url)
        assert await response.read() == b"done"
        await response.close(finished=True)
        await response.close(finished=True)
        assert side.counts() == (1, 0, 0)
        finished.set()

    with RawServer(script) as server:
        side.run(scenario)


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"", id="never-ends"),
        pytest.param(b"20000\r\n" + b"x" * 0x20000 + b"\r\n0\r\n\r\n", id="more-than-64-KiB"),
        pytest.param(b"nonsense\r\n", id="breaks"),
    ],
)
def test_finished_stream_with_too_much_left_is_given_up(side, rest):
    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.send(CHUNKED + b"4\r\ndone\r\n" + rest)

    async def scenario():
        client = side.client()
        for _ in range(2):
            response, _ = await client.send(server.url)
            await response.close(finished=True)
        await response.close()

    with RawServer(script) as server:
        side.run(scenario)

    assert server.num_connections == 2


def test_closing_a_client_cuts_its_own_streams_only(side):
    go = threading.Event()

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED + b"1\r\na\r\n")
        go.wait(5)
        peer.send(b"1\r\nb\r\n0\r\n\r\n")

    async def scenario():
        leaver, stayer = side.client(), side.client()
        cut, _ = await leaver.send(server.url)
        kept, _ = await stayer.send(server.url)
        await leaver.close()
        await leaver.close()
        go.set()
        assert await read_all(kept) == b"ab"
        with pytest.raises(ExchangeError, match="cut on this side") as error:
            await read_all(cut)
        assert error.value.kind == "closed"

    with RawServer(script) as server:
        side.run(scenario)


def test_closed_client_refuses_calls(side):
    async def scenario():
        client = side.client()
        await client.close()
        with pytest.raises(RuntimeError, match="this client is closed"):
            await client.fetch("http://127.0.0.1:9/")

    side.run(scenario)
