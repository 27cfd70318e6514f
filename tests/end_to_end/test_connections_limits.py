"""A client's own limit on top of what all clients share, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest

import server_reference
from server_reference.scripted import rule
from server_reference.scripted.ops import Body, End, Head, Pause, Wait
from smartclient import wrap
from smartclient._call import Timeline, Timeout
from smartclient._errors import ExchangeError
from smartclient.net import NetOptions, aio, blocking, pools
from smartclient.net.homes import all_homes
from smartclient.net.limits import Limiter
from smartclient.net.lobby import LOBBY

from .http2_sides import until
from .net_sides import Client, Side, a_call
from .raw_server import CHUNKED, Peer, RawServer, forever, reply


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine of blocking code comes to: it never waits for a loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class Calls:
    """Starts calls of a side that go on while the test does."""

    def __init__(self, side: Side, threads: ThreadPoolExecutor) -> None:
        self._side, self._threads = side, threads

    def start(self, client: Client, url: str, **changes: Any) -> asyncio.Future[bytes]:
        if self._side.name == "asyncio":
            return asyncio.ensure_future(client.fetch(url, **changes))
        loop = asyncio.get_running_loop()
        fetch = client.fetch(url, **changes)
        return loop.run_in_executor(self._threads, finished, fetch)


@pytest.fixture
def calls(side: Side):
    with ThreadPoolExecutor(30) as threads:
        yield Calls(side, threads)


def limiters(side: Side) -> list[Limiter]:
    found = LOBBY._pools if side.name == "blocking" else None
    return list((found or all_homes()[asyncio.get_running_loop()].pools).limiters.values())


class Gate:
    """A script that counts the calls in flight by the first letter of their body.

    Those of `closed` are answered once the gate opens.
    """

    def __init__(self, closed: bytes = b"A") -> None:
        self._closed, self._lock = closed, threading.Lock()
        self.is_open = threading.Event()
        self.in_flight: Counter[bytes] = Counter()
        self.most: Counter[bytes] = Counter()
        self.order: list[bytes] = []

    def __call__(self, peer: Peer) -> None:
        while (request := peer.request()) is not None:
            body = request.partition(b"\r\n\r\n")[2]
            letter = body[:1]
            with self._lock:
                self.order.append(body)
                self.in_flight[letter] += 1
                self.most[letter] = max(self.most[letter], self.in_flight[letter])
            if letter in self._closed:
                self.is_open.wait(10)
            with self._lock:
                self.in_flight[letter] -= 1
            peer.send(reply(body))


def silent(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED)
    peer.until_closed()


def test_clients_of_different_limits_share_one_connection(side):
    async def scenario():
        for options in ({}, {"max_connections": 2}, {"max_connections": 5000}):
            assert await side.client(**options).fetch(server.url) == b"ok"

    with RawServer(forever(reply())) as server:
        side.run(scenario)

    assert server.num_connections == 1


def test_a_limited_client_stays_below_its_limit_and_holds_nobody_else(side, calls):
    gate = Gate()

    async def scenario():
        limited, unlimited = side.client(max_connections=2), side.client()
        held = [calls.start(limited, server.url, body=b"A") for _ in range(5)]
        await until(lambda: gate.in_flight[b"A"] == 2 and side.counts().queued == 3)
        others = [calls.start(unlimited, server.url, body=b"B") for _ in range(5)]
        assert await asyncio.gather(*others) == [b"B"] * 5
        gate.is_open.set()
        assert await asyncio.gather(*held) == [b"A"] * 5
        assert [one.counts for one in limiters(side)] == [(0, 0, 0)]

    with RawServer(gate) as server:
        side.run(scenario)

    assert gate.most[b"A"] == 2


def test_calls_that_wait_for_a_place_are_served_in_their_order(side, calls):
    gate = Gate()
    bodies = [b"A%02d" % number for number in range(10)]

    async def scenario():
        client, started = side.client(max_connections=1), []
        for number, body in enumerate(bodies):
            started.append(calls.start(client, server.url, body=body))
            await until(lambda number=number: side.counts()[1:] == (1, number))
        gate.is_open.set()
        await asyncio.gather(*started)

    with RawServer(gate) as server:
        side.run(scenario)

    assert (gate.order, server.num_connections) == (bodies, 1)


NO_TIME = Timeout(connect=5.0, pool=0.05, write=5.0, read=5.0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"max_connections": 1}, "1 of this client's own at most 1 are", id="own"),
        pytest.param({}, "1 of at most 1 that all clients share are", id="pool"),
    ],
)
def test_queue_timeout_tells_whose_limit_was_full_and_who_held_it(side, options, told, monkeypatch):
    if not options:
        monkeypatch.setattr(pools, "MOST_CONNECTIONS", 1)

    async def scenario():
        client = side.client(**options)
        held, _ = await client.send(server.url)
        with pytest.raises(ExchangeError) as caught:
            await client.fetch(server.url, timeout=NO_TIME)
        assert caught.value.kind == "pool_timeout"
        assert f"(timeout.pool is 0.05 s): {told} active, longest POST /v1/" in str(caught.value)
        held.cut()
        assert side.counts() == (0, 0, 0)

    with RawServer(silent) as server:
        side.run(scenario)


def test_the_wait_for_a_place_and_then_for_a_connection_have_one_limit(side, calls, monkeypatch):
    monkeypatch.setattr(pools, "MOST_CONNECTIONS", 1)

    def waiting(seconds: float) -> Timeout:
        return Timeout(connect=5.0, pool=seconds, write=5.0, read=5.0)

    async def scenario():
        other, limited, timeline = side.client(), side.client(max_connections=1), Timeline()
        held, _ = await other.send(server.url)
        first = calls.start(limited, server.url, timeout=waiting(0.2))
        await until(lambda: side.counts().queued == 1)
        call, begun = a_call(server.url, timeout=waiting(0.3)), time.monotonic()
        with pytest.raises(ExchangeError, match=r"in 0\.3 s .* that all clients share") as caught:
            await limited.exchange(call, timeline)
        assert caught.value.kind == "pool_timeout"
        assert 0.29 < timeline.pool.end - begun < 0.45
        assert 0.29 < timeline.pool.end - timeline.pool.start < 0.45
        assert isinstance((await asyncio.gather(first, return_exceptions=True))[0], ExchangeError)
        held.cut()

    with RawServer(silent) as server:
        side.run(scenario)


def test_a_closed_clients_waiting_calls_end_and_its_places_are_free(side, calls):
    async def scenario():
        client = side.client(max_connections=2)
        started = [calls.start(client, server.url, body=b"A") for _ in range(5)]
        await until(lambda: side.counts()[1:] == (2, 3) and gate.in_flight[b"A"] == 2)
        await client.close()
        outcomes = await asyncio.gather(*started, return_exceptions=True)
        kinds = Counter(type(outcome) for outcome in outcomes)
        assert kinds == {RuntimeError: 3, ExchangeError: 2}
        assert (side.counts(), limiters(side)) == ((0, 0, 0), [])
        gate.is_open.set()

    gate = Gate()
    with RawServer(gate) as server:
        side.run(scenario)


def test_calls_that_give_up_anywhere_lose_no_place(side, calls):
    """Twenty callers on three places, most of whom leave, over and over."""
    chance = random.Random(7)

    def script(peer: Peer) -> None:
        while peer.request() is not None:
            time.sleep(chance.choice((0.0, 0.002, 0.01)))
            peer.send(reply())

    def patience() -> Timeout:
        pool, read = chance.choice((0.001, 0.01, 1.0)), chance.choice((0.001, 0.005, 1.0))
        return Timeout(connect=5.0, pool=pool, write=5.0, read=read)

    async def scenario():
        client = side.client(max_connections=3)
        for _ in range(10):
            started = [calls.start(client, server.url, timeout=patience()) for _ in range(20)]
            await asyncio.sleep(chance.choice((0.0, 0.003)))
            if side.name == "asyncio":
                for task in chance.sample(started, 10):
                    task.cancel()
            await asyncio.gather(*started, return_exceptions=True)
            assert [one.counts for one in limiters(side)] == [(0, 0, 0)]
            assert side.counts()[1:] == (0, 0)
        assert await client.fetch(server.url) == b"ok"

    with RawServer(script) as server:
        side.run(scenario)


def test_cancelled_streams_of_http2_lose_no_place():
    side, chance = Side("asyncio"), random.Random(8)
    script = [Head(200), Body(b"o"), Wait(0.002), Body(b"k"), End()]

    async def scenario():
        client = side.client(http_version="2", max_connections=3)
        for _ in range(10):
            tasks = [asyncio.create_task(client.fetch(server.base_url)) for _ in range(20)]
            await asyncio.sleep(chance.choice((0.0, 0.005)))
            for task in chance.sample(tasks, 15):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert [one.counts for one in limiters(side)] == [(0, 0, 0)]
        assert await client.fetch(server.base_url) == b"ok"

    with server_reference.scripted(rule(script)) as server:
        side.run(scenario)
        assert server.counters().streams_max <= 3


def test_streams_of_a_broken_connection_leave_their_places_unread():
    side = Side("asyncio")

    async def scenario():
        client = side.client(http_version="2", max_connections=2)
        unread = [(await client.send(server.base_url))[0] for _ in range(2)]
        unread[0]._connection.link._fail(ConnectionResetError("pulled"))
        assert (limiters(side)[0].counts, side.counts()) == ((0, 0, 0), (0, 0, 0))
        for one in unread:
            one.cut()
        assert limiters(side)[0].counts == (0, 0, 0)

    with server_reference.scripted(rule([Head(200), Body(b"begun"), Pause()])) as server:
        side.run(scenario)


def test_threads_over_http2_keep_to_the_limit_of_their_client():
    client = blocking.Connections(NetOptions(http_version="2", max_connections=2))
    script = [Head(200), Body(b"o"), Wait(0.01), Body(b"k"), End()]

    def fetch(_: int) -> bytes:
        response = client.exchange(a_call(server.base_url), Timeline())
        return b"".join(iter(response.read, b""))

    with server_reference.scripted(rule(script)) as server:
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(fetch, range(16))) == [b"ok"] * 16
        client.close()
        assert (server.counters().connections_opened, server.counters().streams_max) == (1, 2)


def test_each_loop_has_places_of_its_own():
    client = aio.AsyncConnections(NetOptions(max_connections=1))

    async def hold(then: Callable[[], None]) -> None:
        response = await client.exchange(a_call(server.url), Timeline())
        then()
        response.cut()

    with RawServer(silent) as server:
        thread = threading.Thread(target=asyncio.run, args=[hold(lambda: None)])
        asyncio.run(hold(lambda: (thread.start(), thread.join(5))))
        assert not thread.is_alive()


def test_a_loop_that_ended_takes_its_places_with_it():
    client, kept = aio.AsyncConnections(NetOptions(max_connections=1)), []

    async def hold() -> None:
        kept.append(await client.exchange(a_call(server.url, timeout=NO_TIME), Timeline()))

    with RawServer(silent) as server:
        asyncio.run(hold())
        asyncio.run(hold())
    assert len(kept) == 2


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_all_its_places():
    client = blocking.Connections(NetOptions(max_connections=1))

    with RawServer(silent) as server:
        held = client.exchange(a_call(server.url), Timeline())
        child = os.fork()
        if child == 0:
            try:
                client.exchange(a_call(server.url, timeout=NO_TIME), Timeline()).cut()
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        held.cut()


def test_prewarming_opens_no_more_than_the_client_may_use(side):
    options = NetOptions(max_connections=2)

    async def scenario():
        call, opened = a_call(server.url), []
        for _ in range(2):
            if side.name == "blocking":
                opened.append(blocking.Connections(options).prewarm(call, 5))
            else:
                opened.append(await aio.AsyncConnections(options).prewarm(call, 5))
        assert (opened, side.counts()) == ([2, 0], (2, 0, 0))

    with RawServer(silent) as server:
        side.run(scenario)


def test_prewarming_opens_as_many_as_the_client_may_use(side, monkeypatch):
    """Its own limit may be higher than that of a pool."""
    monkeypatch.setattr(pools, "MOST_CONNECTIONS", 2)

    async def scenario():
        connections = kinds[side.name](NetOptions(max_connections=4))
        opened = connections.prewarm(a_call(server.url), 4)
        assert (opened if isinstance(opened, int) else await opened) == 4

    kinds = {"blocking": blocking.Connections, "asyncio": aio.AsyncConnections}
    with RawServer(silent) as server:
        side.run(scenario)


@pytest.mark.sdk
def test_the_limits_of_an_sdks_http_client_are_its_own_on_top():
    script = [Head(200), Wait(0.02), Body(b"{}"), End()]

    async def scenario(base_url: str) -> None:
        http_client = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=2))
        client = wrap(
            openai.AsyncOpenAI(api_key="k", base_url=f"{base_url}/v1", http_client=http_client)
        )
        asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        await asyncio.gather(*[client.chat.completions.create(**asked) for _ in range(6)])
        assert aio.counts() == (2, 0, 0)

    with server_reference.scripted(rule(script)) as server:
        asyncio.run(scenario(server.base_url))
        assert server.counters().connections_opened == 2
