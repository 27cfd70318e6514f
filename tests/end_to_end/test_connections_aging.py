"""Connections that end in time, are counted, and are opened before they are needed."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer, rule
from server_reference.scripted.ops import Body, Head, Pause
from smartclient._call import Timeout
from smartclient._errors import ExchangeError
from smartclient.net import lifetime

from .net_sides import Side, a_call
from .raw_server import CHUNKED, RawServer, forever, reply


def test_a_connection_carries_so_many_calls(side):
    async def scenario():
        client = side.client(max_requests=2)
        for _ in range(5):
            await client.fetch(server.url)

    with RawServer(forever(reply())) as server:
        side.run(scenario)

        assert server.num_connections == 3


def test_an_old_connection_is_replaced(side):
    """A backend that DNS no longer names was called for ever."""

    async def scenario():
        client = side.client(max_age=0.05, idle_expiry=None)
        await client.fetch(server.url)
        await asyncio.sleep(0.06)  # it is idle when its life ends
        await client.fetch(server.url)

    with RawServer(forever(reply())) as server:
        side.run(scenario)

        assert server.num_connections == 2


@pytest.mark.parametrize("life", [{"max_age": 0.05}, {"max_age": None, "max_requests": 1}])
def test_an_old_connection_takes_no_call_beside_those_on_it(life):
    side = Side("asyncio")

    async def scenario():
        client = side.client(http_version="2", **life)
        begun, _ = await client.send(server.base_url)
        await asyncio.sleep(0.06)
        other, timeline = await client.send(server.base_url)
        assert not timeline.reused
        assert side.counts().active == 2
        assert await begun.read() == b"begun"
        for one in (begun, other):
            one.cut()
        assert side.counts().active == 0

    with server_reference.scripted(rule([Head(200), Body(b"begun"), Pause()])) as server:
        side.run(scenario)


def test_a_server_that_closes_early_is_learned_from(side, monkeypatch):
    monkeypatch.setattr(lifetime, "LEAST_IDLE", 0.01)

    def closes_soon(peer):
        while peer.request() is not None:
            peer.send(reply())
            peer.sock.settimeout(0.1)

    async def scenario():
        client = side.client()
        await client.fetch(server.url)
        await asyncio.sleep(0.2)
        await client.fetch(server.url)
        route = client.routes.to(a_call(server.url).origin)
        bound = route.life.bound(lifetime.REAL(), 60.0)
        assert 0.05 < bound < 0.2

    with RawServer(closes_soon) as server:
        side.run(scenario)


def test_the_queue_says_who_holds_the_connections(side):
    def script(peer):
        peer.request()
        peer.send(CHUNKED)
        peer.until_closed()

    async def scenario():
        client = side.client(max_connections=1)
        held, _ = await client.send(server.url)
        with pytest.raises(ExchangeError, match=r"longest POST /v1/messages for 0\.\d s; 0 other"):
            await client.send(server.url, timeout=Timeout(pool=0.05))
        held.cut()

    with RawServer(script) as server:
        side.run(scenario)


def test_connections_are_counted(side):
    async def scenario():
        before = smartclient.pool_stats()
        client = side.client()
        for _ in range(3):
            await client.fetch(server.url)
        after = smartclient.pool_stats()
        assert (after.opened - before.opened, after.reused - before.reused) == (1, 2)
        assert (after.idle - before.idle, after.streams) == (1, before.streams)
        assert after.open == after.idle + after.active

    with RawServer(forever(reply())) as server:
        side.run(scenario)


def test_what_a_loop_did_still_counts_when_it_is_gone():
    async def main():
        async with smartclient.AsyncClient(base_url=base, api_key="k") as client:
            await client.prewarm(2)

    with RawServer(forever(reply())) as server:
        base = server.url.removesuffix("/v1/messages")
        before = smartclient.pool_stats()
        asyncio.run(main())
        after = smartclient.pool_stats()

    assert (after.opened - before.opened, after.closed - before.closed) == (2, 2)
    assert after.open == before.open


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_warm_client_does_not_wait_for_a_connection(kind):
    answer = b'{"id":"m","type":"message","role":"assistant","model":"m","content":[]}'
    asked = {"model": "m", "max_tokens": 1, "messages": []}

    async def main():
        async with smartclient.AsyncClient(base_url=base, api_key="k") as client:
            assert [await client.prewarm(2), await client.prewarm(2)] == [2, 0]
            await client.messages.create(**asked)
            return client.last_report

    with RawServer(forever(reply(answer, b"content-type: application/json"))) as server:
        base = server.url.removesuffix("/v1/messages")
        if kind == "asyncio":
            report = asyncio.run(main())
        else:
            with smartclient.Client(base_url=base, api_key="k") as client:
                assert [client.prewarm(2), client.prewarm(2)] == [2, 0]
                client.messages.create(**asked)
                report = client.last_report

        assert server.num_connections == 2
        assert (report.reused, report.stages["tcp"].duration) == (True, 0.0)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_one_shared_connection_is_warm_enough(kind):
    async def main():
        async with smartclient.AsyncClient(**options) as client:
            return [await client.prewarm(3), await client.prewarm(3)]

    with server_reference.scripted(Answer(text="a")) as server:
        options = {"base_url": server.base_url, "api_key": "k", "http_version": "2"}
        if kind == "asyncio":
            warmed = asyncio.run(main())
        else:
            with smartclient.Client(**options) as client:
                warmed = [client.prewarm(3), client.prewarm(3)]

        assert (warmed, server.counters().connections_opened) == ([1, 0], 1)


def test_prewarming_says_what_is_wrong():
    with (
        smartclient.Client(base_url="http://127.0.0.1:9", api_key="k") as client,
        pytest.raises(ExchangeError, match="no connection to"),
    ):
        client.prewarm()


def test_asking_for_the_counts_loads_no_event_loop():
    code = "import smartclient, sys; print(smartclient.pool_stats().open, 'asyncio' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "0 False\n"
