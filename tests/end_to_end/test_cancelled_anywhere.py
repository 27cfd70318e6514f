"""Calls cancelled, and cancelled again, in every stage: nothing stays taken, nothing is swallowed.

The reports behind it: encode/httpcore#1093 and httpx2#982 (a task cancelled while connecting
filled the pool for ever), encode/httpx#1461 (cancelled in the body), pydantic-ai PR#6426
(cancellation lost in a broad except).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import server_reference
from server_reference.scripted import Answer, faults_at
from smartclient import AsyncClient, pool_stats

from .http2_sides import until
from .raw_server import CHUNKED, Peer, RawServer

ASKED: dict[str, Any] = {"model": "m", "max_tokens": 8, "messages": []}


def silent(peer: Peer) -> None:
    peer.until_closed()


def half(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED + b"1\r\n{\r\n")
    peer.until_closed()


def base(server: RawServer) -> str:
    return server.url.removesuffix("/v1/messages")


@contextlib.contextmanager
def in_tcp() -> Iterator[dict[str, Any]]:
    """A listener whose queue is full, so that the kernel answers no SYN."""
    with socket.socket() as listener, contextlib.ExitStack() as filling:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            sock = filling.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield {"base_url": f"http://127.0.0.1:{listener.getsockname()[1]}"}


@contextlib.contextmanager
def in_tls() -> Iterator[dict[str, Any]]:
    with RawServer(silent) as server:
        yield {"base_url": base(server).replace("http:", "https:")}


@contextlib.contextmanager
def in_the_proxy() -> Iterator[dict[str, Any]]:
    with RawServer(silent) as server:
        yield {"base_url": "https://origin.example", "proxy": base(server)}


@contextlib.contextmanager
def in_the_head() -> Iterator[dict[str, Any]]:
    with RawServer(silent) as server:
        yield {"base_url": base(server)}


@contextlib.contextmanager
def in_the_body() -> Iterator[dict[str, Any]]:
    with RawServer(half) as server:
        yield {"base_url": base(server)}


@contextlib.contextmanager
def in_http2() -> Iterator[dict[str, Any]]:
    with server_reference.scripted(Answer(text="Hi", ttft=30.0)) as server:
        yield {"base_url": server.base_url, "http_version": "2"}


STAGES = [in_tcp, in_tls, in_the_proxy, in_the_head, in_the_body, in_http2]


def in_use() -> tuple[int, ...]:
    stats = pool_stats()
    return (stats.active, stats.opening, stats.streams, stats.queued)


async def cancelled(task: asyncio.Task[Any], times: int, between: int) -> None:
    """Cancel `task` so many times, with turns of the loop between."""
    for _ in range(times):
        task.cancel()
        for _ in range(between):
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("times", "between"), [(1, 0), (2, 0), (2, 1), (3, 2)])
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
def test_a_cancelled_call_frees_what_it_had(stage: Callable[[], Any], times: int, between: int):
    async def main(options: dict[str, Any]) -> None:
        async with AsyncClient(api_key="k", max_retries=0, **options) as client:
            task = asyncio.create_task(client.messages.create(**ASKED))
            await asyncio.sleep(0.03)
            assert not task.done()
            await cancelled(task, times, between)
            assert in_use() == (0, 0, 0, 0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with stage() as options:
        asyncio.run(main(options))


@pytest.mark.parametrize(("times", "between"), [(1, 0), (2, 1)])
def test_a_call_cancelled_in_the_queue_leaves_it_and_takes_nothing(times, between):
    async def main(base_url: str) -> None:
        client = AsyncClient(base_url=base_url, api_key="k", max_retries=0, max_connections=1)
        held = asyncio.create_task(client.messages.create(**ASKED))
        await asyncio.sleep(0.03)
        queued = asyncio.create_task(client.messages.create(**ASKED))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pool_stats().queued == 1
        await cancelled(queued, times, between)
        assert pool_stats().queued == 0
        await cancelled(held, times, between)
        assert in_use() == (0, 0, 0, 0)

    with RawServer(silent) as server:
        asyncio.run(main(base(server)))


def test_a_cancel_between_the_end_and_the_drain_leaves_the_connection_to_the_next():
    """The rest of a transfer is taken in by the connection, not by whoever asked for it."""

    async def main(server: Any) -> None:
        client = AsyncClient(base_url=server.base_url, api_key="k", http_version="1.1")
        stream = await client.messages.create(stream=True, **ASKED)
        task = asyncio.create_task(_read(stream))
        await until(lambda: not pool_stats().active)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.messages.create(**ASKED)

    rates = faults_at({"late_terminator": {"rate": 1.0, "seconds": 0.02}})
    with server_reference.scripted("Hi", faults=[rates]) as server:
        asyncio.run(main(server))
        assert server.counters().connections_opened == 1


async def _read(stream: Any) -> None:
    async for _ in stream:
        pass
    await asyncio.sleep(1)


@pytest.mark.parametrize("stage", [in_tls, in_the_proxy, in_the_head, in_the_body])
def test_a_callers_own_timeout_is_a_timeout(stage: Callable[[], Any]):
    """`asyncio.timeout` cancels: what it is told back must be its own cancellation."""

    async def main(options: dict[str, Any]) -> None:
        async with AsyncClient(api_key="k", **options) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.03):
                    await client.messages.create(**ASKED)
            assert in_use() == (0, 0, 0, 0)

    with stage() as options:
        asyncio.run(main(options))
