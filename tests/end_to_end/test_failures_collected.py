"""A call that fails leaves nothing to the garbage collector: its body may be large.

An error has a traceback, whose frames have the call; whoever keeps such an error is kept by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import server_reference
from server_reference.scripted import Answer, faults_at
from smartclient import AsyncClient, Client, ExchangeError, SmartClientError, Timeout
from smartclient._call import Call
from smartclient.net.link import Link
from smartclient.net.multiplex import Multiplex
from smartclient.net.streams import StreamConnection
from tests.end_to_end.net_sides import Side
from tests.end_to_end.raw_server import CHUNKED, Peer, RawServer

ASKED: dict[str, Any] = {
    "model": "m",
    "max_tokens": 64,
    "stream": True,
    "messages": [{"role": "user", "content": "Hi"}],
}
ANSWER = Answer(text="one two three four")
PATIENCE = Timeout(read=0.1, first_event=0.1, idle=0.1)


def kept() -> int:
    """Calls, and asyncio connections that are closed, which something still has."""
    found: list[Any] = [o for o in gc.get_objects() if type(o) in _KINDS]
    return sum(not isinstance(one, Link) or one.is_cut for one in found)


_KINDS = (Call, Multiplex, StreamConnection)


def ask(given: dict[str, Any]) -> None:
    client = Client(**given)
    with pytest.raises(SmartClientError):
        list(client.messages.create(**ASKED))


def ask_async(given: dict[str, Any]) -> None:
    async def main() -> None:
        client = AsyncClient(**given)
        with pytest.raises(SmartClientError):
            _ = [event async for event in await client.messages.create(**ASKED)]

    asyncio.run(main())


@pytest.mark.parametrize("ask", [ask, ask_async])
@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("fault", ["reset_before_reply", "reset_after", "fin_after", "stall_after"])
def test_a_failed_call_is_freed_at_once(
    ask: Callable[[dict[str, Any]], None], version: str, fault: str
) -> None:
    faults = [faults_at({fault: 1.0}, seed=1)]
    with server_reference.scripted(ANSWER, faults=faults) as server:
        gc.freeze()  # so that only what this call makes is looked at: the rest is large
        gc.disable()
        try:
            given = {"base_url": server.base_url, "api_key": "k", "http_version": version}
            ask({**given, "max_retries": 0, "timeout": PATIENCE})
            ended = time.monotonic() + 2.0
            while kept() and time.monotonic() < ended:
                time.sleep(0.01)  # the loop in the background may have a turn to go
            assert kept() == 0
        finally:
            gc.enable()
            gc.unfreeze()


class Pieces:
    """A body that can be watched."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"{"
        yield b"}"


def silent(peer: Peer) -> None:
    peer.request()
    peer.until_closed()


def garbled(peer: Peer) -> None:
    peer.request()
    peer.send(b"no HTTP at all" + b"\r\n\r\n")
    peer.until_closed()


def resetting(peer: Peer) -> None:
    peer.request()
    peer.reset()


@pytest.mark.parametrize("name", ["blocking", "asyncio"])
@pytest.mark.parametrize("script", [silent, garbled, resetting])
def test_a_request_body_is_freed_with_its_failure(name: str, script: Callable[[Peer], None]):
    async def scenario() -> None:
        body = Pieces()
        watched = weakref.ref(body)
        with contextlib.suppress(ExchangeError):
            await side.client().send(server.url, body=body, timeout=Timeout(read=0.1))
        del body
        await asyncio.sleep(0)
        assert watched() is None

    side = Side(name)
    with RawServer(script) as server, uncollected():
        side.run(scenario)


@pytest.mark.parametrize("name", ["blocking", "asyncio"])
def test_a_request_body_that_found_no_connection_is_freed(name: str):
    async def scenario() -> None:
        client, body = side.client(max_connections=1), Pieces()
        watched = weakref.ref(body)
        held = await client.send(server.url, body=b"{}")
        with contextlib.suppress(ExchangeError):
            await client.send(server.url, body=body, timeout=Timeout(pool=0.01))
        del body
        held[0].cut()
        assert watched() is None

    side = Side(name)
    with RawServer(begun) as server, uncollected():
        side.run(scenario)


def begun(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED)
    peer.until_closed()


@contextmanager
def uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
