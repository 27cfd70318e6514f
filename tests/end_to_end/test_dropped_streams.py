"""Streams that are dropped where they are collected: by any thread, at any moment."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from smartclient import AsyncClient, Client
from smartclient.net import aio, blocking, homes
from smartclient.net.lobby import LOBBY
from tests.smartclient.fakes import START, text

from .raw_server import Peer, RawServer

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
ASKED = {"model": "tiny", "max_tokens": 8, "messages": [], "stream": True}


def endless(peer: Peer) -> None:
    peer.request()
    peer.send(HEAD + START + text("a"))
    peer.until_closed()


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer(endless) as running:
        yield running


def address(server: RawServer) -> dict[str, str]:
    return {"base_url": server.url.removesuffix("/v1/messages"), "api_key": "k"}


async def opened(client: AsyncClient):
    stream = await client.messages.create(**ASKED)
    await anext(stream)
    return stream


def test_a_stream_may_be_collected_by_a_thread_that_holds_the_pools_lock(server):
    """Any allocation can start the collector, also one of the pool's own."""
    client = Client(**address(server))
    held = [client.messages.create(**ASKED)]
    next(held[0])

    def collect() -> None:
        with LOBBY._lock:
            held.clear()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(5)

    assert not thread.is_alive()
    assert blocking.counts().active == 0
    assert server.wait_closed(1)


def test_an_async_stream_may_be_collected_by_another_thread(server):
    client = AsyncClient(**address(server))

    async def main() -> aio.Counts:
        asyncio.get_running_loop().set_debug(True)  # it notices calls from other threads
        held = [await opened(client)]
        await asyncio.to_thread(held.clear)
        await asyncio.sleep(0)
        return aio.counts()

    assert asyncio.run(main()).active == 0
    assert server.wait_closed(1)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # whoever closes a loop so, leaks
def test_an_async_stream_may_be_collected_after_its_loop_was_closed(server):
    client = AsyncClient(**address(server))
    loop = asyncio.new_event_loop()
    stream = loop.run_until_complete(opened(client))
    loop.close()

    del stream
    gc.collect()  # an exception in a finalizer would fail this test

    homes._homes.clear()
    gc.collect()  # what the loop left open ends here, where its warning is expected
