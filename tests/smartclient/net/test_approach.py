"""One asyncio connection to a proxy, before it leads on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from smartclient._call import Origin
from smartclient.net.approach import Approach
from smartclient.net.pool import Pool

ORIGIN = Origin("https", "a.example", 443)


def play(scenario: Callable[[Approach, socket.socket], Awaitable[None]]) -> None:
    """Run it with an approach and its peer's socket."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        approach = Approach(loop, ours, ORIGIN, Pool(1), lambda *_, **__: None)
        await loop.create_connection(lambda: approach, sock=ours)
        with theirs:
            try:
                await asyncio.wait_for(scenario(approach, theirs), 5)
            finally:
                approach.drop()
                await asyncio.sleep(0)

    asyncio.run(run())


def test_what_is_sent_arrives_and_what_comes_is_received():
    async def scenario(approach, peer):
        await approach.send(b"hello")
        assert peer.recv(100) == b"hello"
        peer.sendall(b"yes")
        assert await approach.receive() == b"yes"

    play(scenario)


def test_the_end_is_no_bytes_after_those_that_came():
    async def scenario(approach, peer):
        peer.sendall(b"last")
        peer.close()
        assert await approach.receive() == b"last"
        assert [await approach.receive() for _ in range(2)] == [b"", b""]

    play(scenario)


def test_a_connection_that_was_lost_raises_why():
    async def scenario(approach, peer):
        approach.connection_lost(ConnectionResetError(104, "reset"))
        with pytest.raises(ConnectionResetError):
            await approach.receive()

    play(scenario)


def test_nothing_is_sent_on_a_dropped_one():
    async def scenario(approach, peer):
        approach.drop()
        approach.drop()
        with pytest.raises(BrokenPipeError):
            await approach.send(b"hello")

    play(scenario)


def test_a_slow_proxy_is_waited_for():
    async def scenario(approach, peer):
        sending = asyncio.ensure_future(approach.send(b"x" * 4_000_000))
        await asyncio.sleep(0)
        assert not sending.done()
        received = 0
        while received < 4_000_000:
            received += len(await asyncio.to_thread(peer.recv, 1_000_000))
        await sending

    play(scenario)


def test_it_carries_no_call():
    async def scenario(approach, peer):
        approach.evict(None)
        with pytest.raises(AssertionError):
            approach.lane(None)

    play(scenario)
