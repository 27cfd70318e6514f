"""Many calls over HTTP/2: bursts, cancellations, threads, forks and loops."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading

import httpx
import httpx2
import openai
import pytest

import server_reference
import smartclient
from server_reference.scripted import rule
from server_reference.scripted.ops import Body, End, Head, Pause
from smartclient._call import Timeline
from smartclient.net import aio, blocking
from smartclient.net.options import NetOptions
from tests.end_to_end.http2_sides import CHAT, until
from tests.end_to_end.net_sides import Side, a_call, read_all
from tests.end_to_end.tiny_calls import ANN

HANGING = [Head(200), Body(b"begun"), Pause()]
OK = [Head(200), Body(b"ok"), End()]


@pytest.fixture
def asyncio_side() -> Side:
    return Side("asyncio")


async def burst(client, server, number):
    """So many calls at once; their timelines."""

    async def one():
        reply, timeline = await client.send(server.base_url, body=CHAT)
        await read_all(reply)
        return timeline

    return await asyncio.gather(*[one() for _ in range(number)])


@pytest.mark.parametrize("version", ["auto", "2"])
def test_cold_burst_opens_one_connection(asyncio_side, version):
    async def scenario():
        client = asyncio_side.client(http_version=version, ca_file=server.ca_file)
        timelines = await burst(client, server, 100)
        opener = [one for one in timelines if one.tls is not None]
        assert (len(opener), opener[0].pool, opener[0].reused) == (1, None, False)
        assert all(one.pool is not None and one.reused for one in timelines if one not in opener)

    with server_reference.scripted(rule(OK), tls=True) as server:
        asyncio_side.run(scenario)

        assert server.counters().connections_opened == 1
        assert server.counters().streams_open == 0


def test_burst_past_the_streams_of_one_connection_opens_others(asyncio_side):
    async def scenario():
        client = asyncio_side.client(http_version="2")
        calls = [client.send(server.base_url) for _ in range(250)]
        replies = await asyncio.gather(*calls)
        assert asyncio_side.counts() == (0, 250, 0)
        for reply, _ in replies:
            await reply.close()

    with server_reference.scripted(rule(HANGING)) as server:
        asyncio_side.run(scenario)

        counted = server.counters()
        assert (counted.connections_opened, counted.resets_seen) == (3, 250)


def test_limit_counts_calls_in_flight(asyncio_side):
    async def scenario():
        client = asyncio_side.client(http_version="2", max_connections=7)
        await burst(client, server, 50)

    with server_reference.scripted(rule(OK)) as server:
        asyncio_side.run(scenario)

        assert server.counters().connections_opened == 1
        assert server.counters().streams_max <= 7


def test_burst_is_held_back_once_only_where_http1_is_spoken(asyncio_side):
    async def scenario():
        client = asyncio_side.client(http_version="auto", ca_file=server.ca_file)
        first = await burst(client, server, 20)
        assert sum(one.tls is None or one.pool is not None for one in first) == 19
        aio.close_idle()
        second = await burst(client, server, 20)
        assert [one.pool for one in second if one.tls is not None] == [None] * 20

    with server_reference.scripted(rule(OK), tls=True, http2=False) as server:
        asyncio_side.run(scenario)


def test_opening_that_fails_lets_the_next_one_try(asyncio_side):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

    async def scenario():
        client = asyncio_side.client(http_version="2")
        found = await asyncio.gather(*[client.send(url) for _ in range(5)], return_exceptions=True)
        assert [error.kind for error in found] == ["connect"] * 5
        assert asyncio_side.counts() == (0, 0, 0)

    asyncio_side.run(scenario)


def test_cancelled_calls_leave_a_connection_that_works(asyncio_side):
    """httpcore#943: after 100 of them the connection was dead for ever."""

    async def scenario():
        client = asyncio_side.client(http_version="2")
        for _ in range(4):
            tasks = [
                asyncio.create_task(client.fetch(f"{server.base_url}/hang")) for _ in range(30)
            ]
            await until(lambda: server.counters().streams_open == 30)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert await client.fetch(server.base_url) == b"ok"

    with server_reference.scripted([rule(HANGING, path="/hang"), rule(OK)]) as server:
        asyncio_side.run(scenario)

        counted = server.counters()
        assert (counted.connections_opened, counted.resets_seen) == (1, 120)
        assert counted.streams_open == 0


def test_fifty_threads_share_one_client_and_one_connection():
    def work():
        for _ in range(4):
            timeline = Timeline()
            reply = client.exchange(a_call(server.base_url), timeline)
            found.append(reply.read() + reply.read())

    found = []
    with server_reference.scripted(rule(OK)) as server:
        client = blocking.Connections(NetOptions(http_version="2"))
        threads = [threading.Thread(target=work) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()

        assert found == [b"ok"] * 200
        assert server.counters().connections_opened == 1


def test_interrupt_in_the_middle_of_a_read_resets_the_stream():
    with server_reference.scripted(rule(HANGING)) as server:
        client = blocking.Connections(NetOptions(http_version="2"))
        reply = client.exchange(a_call(server.base_url), Timeline())
        assert reply.read() == b"begun"
        interrupt = threading.Timer(0.05, os.kill, (os.getpid(), 2))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            reply.read()
        interrupt.join()
        asyncio.run(until(lambda: server.counters().resets_seen == 1))
        client.close()


def test_forked_child_begins_anew_and_the_parents_streams_go_on():
    with server_reference.scripted([rule(HANGING, path="/hang"), rule(OK)]) as server:
        client = blocking.Connections(NetOptions(http_version="2"))
        reply = client.exchange(a_call(f"{server.base_url}/hang"), Timeline())
        child = os.fork()
        if child == 0:
            os._exit(in_child(client, reply, server.base_url))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert reply.read() == b"begun"
        client.close()

        counted = server.counters()
        assert counted.connections_opened == 2


def in_child(client, reply, url):
    """0 if a call works, and the parent's reply is refused."""
    try:
        mine = client.exchange(a_call(url), Timeline())
        assert mine.read() == b"ok"
        with pytest.raises(RuntimeError, match="before the process forked"):
            reply.read()
        reply.cut()
        del reply
    except BaseException:
        return 1
    return 0


@pytest.mark.sdk
@pytest.mark.parametrize("family", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_sdk_whose_client_speaks_http2_goes_on_doing_so(family):
    async def scenario():
        http = family.AsyncClient(http2=True, verify=ssl.create_default_context(cafile=ca_file))
        client = smartclient.wrap(
            openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="any", http_client=http)
        )
        create = client.chat.completions.with_raw_response.create
        asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        replies = await asyncio.gather(*[create(**asked) for _ in range(10)])
        assert {reply.http_response.http_version for reply in replies} == {"HTTP/2"}
        assert smartclient.last_report(client).protocol == "HTTP/2"
        await client.close()

    with server_reference.scripted("Hello", tls=True) as server:
        ca_file = server.ca_file
        asyncio.run(scenario())

        assert server.counters().connections_opened == 1


def test_one_client_serves_many_loops(asyncio_side):
    client = aio.AsyncConnections(NetOptions(http_version="2"))

    async def scenario():
        reply = await client.exchange(a_call(server.base_url), Timeline())
        assert await read_all(reply) == b"ok"
        await client.exchange(a_call(f"{server.base_url}/hang"), Timeline())

    with server_reference.scripted([rule(HANGING, path="/hang"), rule(OK)]) as server:
        for _ in range(5):
            asyncio_side.run(scenario)

        asyncio.run(until(lambda: server.counters().connections_open == 0))
        assert server.counters().connections_opened == 5


@pytest.mark.parametrize("make", [smartclient.Client, smartclient.AsyncClient])
def test_our_own_server_is_spoken_to_by_prior_knowledge(tiny_server, make):
    async def scenario():
        client = make(base_url=tiny_server.base_url, api_key=ANN, http_version="2")
        asked = {"model": "tiny", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
        for _ in range(2):
            answer = client.messages.create(**asked)
            answer = await answer if isinstance(client, smartclient.AsyncClient) else answer
            assert answer.usage.output_tokens
        report = client.last_report
        assert (report.protocol, report.reused) == ("HTTP/2", True)
        closing = client.close()
        if closing is not None:
            await closing

    asyncio.run(scenario())
