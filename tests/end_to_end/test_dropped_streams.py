"""Streams that are dropped where they are collected: by any thread, at any moment."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

import server_reference
from server_reference.scripted import Answer
from smartclient import AsyncClient, Client, pool_stats
from smartclient.net import aio, background, blocking, homes
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


@pytest.mark.parametrize("drop", ["close", "close the client"])
def test_a_reply_may_be_closed_where_the_background_collects(drop):
    """An SDK's generator closes its reply in a `finally`, also in the thread that it waits for."""
    with server_reference.scripted(Answer(text="a b", itl=10.0)) as server:
        client = Client(base_url=server.base_url, api_key="k", http_version="2")
        stream = client.messages.create(**ASKED)
        next(stream)
        done = threading.Event()
        loop = background._Running.get().loop

        def collect() -> None:
            stream.close() if drop == "close" else client.close()
            done.set()

        loop.call_soon_threadsafe(collect)

        assert done.wait(0.9), "it waited for itself"
        server.settle(patience=5.0)
        assert server.counters().streams_open == 0


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
    before = pool_stats()
    loop.close()

    del stream
    gc.collect()  # an exception in a finalizer would fail this test

    after = pool_stats()
    assert (after.active, after.streams) == (before.active - 1, before.streams - 1)
    assert after.closed == before.closed + 1
    homes._homes.clear()
    gc.collect()  # what the loop left open ends here, where its warning is expected
