"""What only asyncio can do to connections: cancellation, loops that end, readers that lag."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import threading
from collections.abc import Callable

import pytest

import server_reference
from smartclient._call import Timeline, Timeout
from smartclient._errors import ExchangeError
from smartclient.net import NetOptions, aio
from smartclient.net.homes import all_homes

from .net_sides import a_call, read_all
from .raw_server import CHUNKED, Peer, RawServer, forever, reply


async def fetch(client: aio.AsyncConnections, url: str, **changes) -> bytes:
    return await read_all(await client.exchange(a_call(url, **changes), Timeline()))


def silent(peer: Peer) -> None:
    """Begin a stream and leave it at that."""
    peer.request()
    peer.send(CHUNKED)
    peer.until_closed()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until `condition` holds."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.002)
    pytest.fail("it did not come to that within 4 s")


def test_cancelled_calls_leave_nothing_active():
    """Twenty callers on ten places, cancelled anywhere, over and over (encode/httpcore#830)."""
    chance = random.Random(1)

    async def churn(client: aio.AsyncConnections) -> None:
        tasks = [asyncio.create_task(fetch(client, server.url)) for _ in range(20)]
        for _ in range(chance.randrange(12)):
            await asyncio.sleep(0)
        for task in chance.sample(tasks, 15):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def scenario():
        client = aio.AsyncConnections(NetOptions(max_connections=10))
        for _ in range(30):
            await churn(client)
        assert aio.counts()[1:] == (0, 0)
        assert await fetch(client, server.url) == b"ok"

    with RawServer(forever(reply())) as server:
        asyncio.run(scenario())


def test_call_cancelled_while_it_is_queued_swallows_no_wake_up():
    release = threading.Event()

    def script(peer: Peer) -> None:
        while peer.request() is not None:
            release.wait(5)
            peer.send(reply())

    async def scenario():
        client = aio.AsyncConnections(NetOptions(max_connections=1))
        calls = [asyncio.create_task(fetch(client, server.url)) for _ in range(3)]
        await until(lambda: aio.counts().queued == 2)
        calls[1].cancel()
        release.set()
        assert await asyncio.gather(calls[0], calls[2]) == [b"ok", b"ok"]
        assert aio.counts() == (1, 0, 0)

    with RawServer(script) as server:
        asyncio.run(scenario())


def test_waiting_calls_are_served_in_their_order():
    bodies = [b"%02d" % number for number in range(20)]

    async def scenario():
        client = aio.AsyncConnections(NetOptions(max_connections=1))
        await asyncio.gather(*(fetch(client, server.url, body=body) for body in bodies))

    seen: list[bytes] = []
    with RawServer(forever(lambda request: seen.append(request[-2:]) or reply())) as server:
        asyncio.run(scenario())

    assert (seen, server.num_connections) == (bodies, 1)


def test_cancelling_a_read_cuts_the_stream():
    async def scenario():
        client = aio.AsyncConnections()
        response = await client.exchange(a_call(server.url), Timeline())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(response.read(), 0.05)
        assert aio.counts() == (0, 0, 0)
        with pytest.raises(ExchangeError, match="cut on this side"):
            await response.read()
        assert await asyncio.to_thread(server.wait_closed, 1)

    with RawServer(silent) as server:
        asyncio.run(scenario())


def test_one_client_serves_one_loop_after_another():
    """The second `asyncio.run` must not meet the first one's sockets (openai-python#1254)."""
    client = aio.AsyncConnections()

    with RawServer(forever(reply())) as server:
        for _ in range(3):
            assert asyncio.run(fetch(client, server.url)) == b"ok"
            gc.collect()
        assert server.wait_closed(3)

    assert server.num_connections == 3
    assert not [loop for loop in all_homes() if loop.is_closed()]


def test_end_of_the_loop_ends_streams_that_are_still_open():
    responses = []

    async def scenario():
        client = aio.AsyncConnections()
        responses.append(await client.exchange(a_call(server.url), Timeline()))

    with RawServer(silent) as server:
        asyncio.run(scenario())
        assert server.wait_closed(1)
    responses.clear()
    gc.collect()


def test_one_client_serves_loops_in_several_threads():
    client = aio.AsyncConnections()
    bodies: list[bytes] = []

    async def scenario():
        bodies.extend(await asyncio.gather(*(fetch(client, server.url) for _ in range(5))))

    with RawServer(forever(reply())) as server:
        threads = [threading.Thread(target=asyncio.run, args=(scenario(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)

    assert bodies == [b"ok"] * 20


def test_server_waits_for_a_reader_that_lags():
    written = []

    def script(peer: Peer) -> None:
        peer.request()
        peer.sock.settimeout(0.5)
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 40000000\r\n\r\n")
        with contextlib.suppress(TimeoutError):
            for _ in range(4000):
                peer.sock.sendall(b"x" * 10_000)
                written.append(10_000)

    async def scenario():
        client = aio.AsyncConnections()
        response = await client.exchange(a_call(server.url), Timeline())
        await asyncio.to_thread(server.wait_closed, 1)
        assert len(await response.read()) <= 1024 * 1024
        response.cut()

    with RawServer(script) as server:
        asyncio.run(scenario())

    assert sum(written) < 40_000_000


def test_slow_reader_still_gets_every_byte():
    body = bytes(range(256)) * 8_000

    async def scenario():
        client = aio.AsyncConnections()
        response = await client.exchange(a_call(server.url), Timeline())
        await asyncio.sleep(0.05)
        assert await read_all(response) == body

    with RawServer(forever(reply(body))) as server:
        asyncio.run(scenario())


def test_two_tasks_cannot_read_one_reply():
    async def scenario():
        client = aio.AsyncConnections()
        response = await client.exchange(a_call(server.url), Timeline())
        reader = asyncio.create_task(response.read())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task reads"):
            await response.read()
        with pytest.raises(ExchangeError):
            await reader

    with RawServer(silent) as server:
        asyncio.run(scenario())


def test_closing_the_client_sends_its_queued_calls_away():
    def script(peer: Peer) -> None:
        peer.request()
        peer.until_closed()

    async def scenario():
        client = aio.AsyncConnections(NetOptions(max_connections=1))
        calls = [asyncio.create_task(fetch(client, server.url)) for _ in range(3)]
        await until(lambda: aio.counts().queued == 2)
        await client.close()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes[1:]] == [RuntimeError, RuntimeError]
        assert aio.counts() == (0, 0, 0)

    with RawServer(script) as server:
        asyncio.run(scenario())


def test_async_iterable_body_travels_in_chunks():
    async def pieces():
        yield b"one"
        yield b"two"

    async def scenario():
        sent = await fetch(aio.AsyncConnections(), server.url, body=pieces())
        assert sent.endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")

    with RawServer(forever(reply)) as server:
        asyncio.run(scenario())


def test_idle_connection_closed_by_the_server_is_forgotten_at_once():
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(reply())

    async def scenario():
        await fetch(aio.AsyncConnections(), server.url)
        await until(lambda: aio.counts() == (0, 0, 0))

    with RawServer(script) as server:
        asyncio.run(scenario())


def test_timeout_of_the_caller_during_the_connect_leaves_no_place_taken():
    async def scenario():
        client = aio.AsyncConnections()
        url = server.url.replace("http:", "https:")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fetch(client, url, timeout=Timeout(connect=30)), 0.1)
        assert aio.counts() == (0, 0, 0)

    with RawServer(Peer.until_closed) as server:
        asyncio.run(scenario())


def test_client_closed_on_one_loop_is_closed_on_the_others():
    client = aio.AsyncConnections()
    streaming, outcomes = threading.Event(), []

    async def elsewhere():
        response = await client.exchange(a_call(server.url), Timeline())
        streaming.set()
        outcomes.append(await asyncio.gather(response.read(), return_exceptions=True))

    with RawServer(silent) as server:
        thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
        thread.start()
        streaming.wait(5)
        asyncio.run(client.close())
        thread.join(10)

    assert "cut on this side" in str(outcomes[0][0])


def test_reply_collected_in_another_thread_is_cut_on_its_own_loop():
    async def scenario():
        client = aio.AsyncConnections()
        held = [await client.exchange(a_call(server.url), Timeline())]
        await asyncio.to_thread(held.clear)
        await until(lambda: aio.counts() == (0, 0, 0))
        assert await asyncio.to_thread(server.wait_closed, 1)

    with RawServer(silent) as server:
        asyncio.run(scenario())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_child_leaves_the_loops_connections_to_its_parent():
    client = aio.AsyncConnections()

    def in_child() -> None:
        code = 1
        try:
            body = asyncio.run(fetch(client, server.url, body=b"child!"))
            code = 0 if body == b"child!" else 2
        finally:
            os._exit(code)

    async def scenario():
        assert await fetch(client, server.url, body=b"parent") == b"parent"
        child = os.fork()
        if child == 0:
            threading.Thread(target=in_child).start()
            signal.pause()
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        timeline = Timeline()
        response = await client.exchange(a_call(server.url, body=b"parent"), timeline)
        assert (await read_all(response), timeline.reused) == (b"parent", True)

    with RawServer(forever(lambda request: reply(request[-6:]))) as server:
        asyncio.run(scenario())

    assert server.num_connections == 2


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_server_sees_the_parent_cut_though_a_forked_child_lives():
    """A copy in the child would keep the connection open, and the server at work."""

    async def scenario():
        response = await aio.AsyncConnections().exchange(a_call(server.url), Timeline())
        child = os.fork()
        if child == 0:
            signal.pause()
        try:
            response.cut()
            assert await asyncio.to_thread(server.wait_closed, 1)
        finally:
            os.kill(child, signal.SIGKILL)
            await asyncio.to_thread(os.waitpid, child, 0)

    with RawServer(silent) as server:
        asyncio.run(scenario())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_child_may_go_on_with_the_loop():
    """It knows the parent's sockets by their numbers, which new ones must not get."""
    client = aio.AsyncConnections()
    with RawServer(forever(reply())) as server, asyncio.Runner() as runner:
        runner.run(fetch(client, server.url))
        child = os.fork()
        if child == 0:
            body = b""
            try:
                body = runner.run(fetch(client, server.url))
            finally:
                os._exit(0 if body == b"ok" else 1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_client_closed_between_two_pieces_of_a_body_ends_the_call(version):
    async def pieces():
        yield b"{"
        await client.close()
        yield b"}"

    async def scenario():
        with pytest.raises(ExchangeError, match="cut on this side"):
            await client.exchange(a_call(server.base_url, body=pieces()), Timeline())
        assert aio.counts()[1:] == (0, 0)

    client = aio.AsyncConnections(NetOptions(http_version=version))
    with server_reference.scripted("Hello there") as server:
        asyncio.run(scenario())
