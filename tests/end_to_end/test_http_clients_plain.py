"""Our httpx clients used as they are, against the scripted server."""

from __future__ import annotations

import asyncio
import gc

import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer, ErrorAnswer, rule
from server_reference.scripted.ops import Body, End, Head, Reset
from smartclient import pool_stats

from .http2_sides import until
from .http_sides import every_side
from .raw_server import RawServer, forever, reply

pytestmark = every_side

ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**ASKED, "stream": True}
OK = [Head(200), Body(b"ok"), End()]
BUSY = ErrorAnswer(503, headers={"retry-after-ms": "1"})


def messages(server) -> str:
    return f"{server.base_url}/v1/messages"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_any_request_is_carried_and_reported(http, method):
    async def scenario(client):
        response = await client.request(method, f"{server.base_url}/any?a=b")
        assert (response.status_code, response.content) == (200, b"ok")
        assert (client.report.endpoint, client.report.status) == (f"{method} /any", 200)

    with server_reference.scripted(rule(OK)) as server:
        http.run(scenario)


def test_a_known_format_is_reported_with_its_usage(http):
    async def scenario(client):
        response = await client.request("POST", messages(server), json=STREAM)
        assert b"Paris" in response.content
        report = client.report
        assert (report.provider, report.model, report.error) == ("anthropic", "m", None)
        assert report.ttft is not None

    with server_reference.scripted(Answer(text="Paris")) as server:
        http.run(scenario)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_busy_server_is_asked_again(http, method):
    async def scenario(client):
        response = await client.request(method, f"{server.base_url}/any", json=ASKED)
        assert response.content == b"ok"
        assert [one.status for one in client.report.attempts] == [503, 503, 200]

    with server_reference.scripted([rule([BUSY, BUSY, OK])]) as server:
        http.run(scenario)
        assert server.counters().requests == 3


@pytest.mark.parametrize("given", [{"max_retries": 1}, {"stop": lambda state: True}])
def test_the_settings_say_how_often(http, given):
    async def scenario(client):
        response = await client.request("GET", f"{server.base_url}/any")
        assert response.status_code == 503

    with server_reference.scripted(BUSY) as server:
        http.run(scenario, **given)
        assert server.counters().requests == 1 + given.get("max_retries", 0)


def test_a_body_that_can_be_read_once_is_sent_once(http):
    async def later():
        yield b"a"

    async def scenario(client):
        content = later() if http.is_async else iter([b"a"])
        response = await client.request("POST", f"{server.base_url}/any", content=content)
        assert response.status_code == 503

    with server_reference.scripted(BUSY) as server:
        http.run(scenario)
        assert server.counters().requests == 1


def test_a_failure_is_the_familys_and_ours(http):
    async def scenario(client):
        with pytest.raises(http.family.ConnectError) as caught:
            await client.request("GET", "http://127.0.0.1:1/")
        assert isinstance(caught.value, smartclient.ExchangeError)
        assert client.report.error == "connect"

    http.run(scenario, max_retries=0)


def test_a_failure_in_the_middle_of_a_body_is_the_familys_and_ours(http):
    async def scenario(client):
        response = await client.opened("GET", f"{server.base_url}/any")
        with pytest.raises(http.family.TransportError) as caught:
            await client.read(response)
        assert isinstance(caught.value, smartclient.ExchangeError)
        assert caught.value.request is response.request

    broken = [Head(200), Body(b"o"), Reset()]
    with server_reference.scripted(rule(broken)) as server:
        http.run(scenario)


@pytest.mark.parametrize("url", ["/any", "ftp://a.test/any"])
def test_what_is_no_url_for_http_is_refused_in_the_familys_way(http, url):
    async def scenario(client):
        with pytest.raises(http.family.UnsupportedProtocol, match="must begin with http://"):
            await client.request("GET", url)

    http.run(scenario)


def test_each_hop_of_a_redirect_is_a_call_of_its_own(http):
    async def scenario(client):
        response = await client.request("GET", f"{server.base_url}/from")
        assert (response.status_code, response.url.path) == (200, "/to")
        assert [one.endpoint for one in reports] == ["GET /from", "GET /to"]

    reports: list[smartclient.CallReport] = []
    moved = [Head(307, [("location", "/to")]), End()]
    with server_reference.scripted([rule([moved, OK])]) as server:
        http.run(scenario, follow_redirects=True, on_report=reports.append)


def test_ten_streams_one_after_another_need_one_connection(http):
    async def scenario(client):
        for _ in range(10):
            response = await client.opened("POST", messages(server), json=STREAM)
            assert b"message_stop" in await client.read(response)

    with server_reference.scripted(Answer(text="a b c")) as server:
        http.run(scenario)
        assert server.counters().connections_opened == 1
        server.assert_reused(connections=1)


def test_it_shares_connections_with_our_other_clients(http):
    async def scenario(client):
        await client.request("POST", messages(server), json=ASKED)
        given = {"base_url": server.base_url, "api_key": "k"}
        if http.is_async:
            async with smartclient.AsyncClient(**given) as other:
                await other.messages.create(**ASKED)
        else:
            with smartclient.Client(**given) as other:
                other.messages.create(**ASKED)

    with server_reference.scripted(Answer(text="a")) as server:
        http.run(scenario)
        assert server.counters().connections_opened == 1


def is_free() -> bool:
    gc.collect()  # httpx ties a response to its stream, and asyncio ends a generator of its own
    return (pool_stats().active, pool_stats().streams) == (0, 0)


def test_a_stream_that_is_dropped_half_read_frees_its_place(http):
    async def scenario(client):
        response = await client.opened("POST", messages(server), json=STREAM)
        await client.first(response)
        del response
        await until(is_free)
        await asyncio.to_thread(server.settle, patience=5.0)
        assert server.counters().streams_open == 0

    with server_reference.scripted(Answer(text="a b", itl=60.0)) as server:
        http.run(scenario)


def test_a_stream_that_is_closed_half_read_stops_the_server(http):
    async def scenario(client):
        response = await client.opened("POST", messages(server), json=STREAM)
        await client.first(response)
        await client.leave(response)
        await asyncio.to_thread(server.assert_no_leaks, idle=0)
        assert client.report.error == "cut"

    with server_reference.scripted(Answer(text="a b", itl=60.0)) as server:
        http.run(scenario)


def test_a_client_that_is_dropped_leaves_nothing(http):
    async def scenario(client):
        dropped = type(client)(http.make())
        await dropped.request("GET", server.url)
        del dropped

    with RawServer(forever(reply)) as server:
        http.run(scenario)
        assert server.wait_closed(1)


def test_nothing_is_sent_after_the_close(http):
    async def scenario(client):
        await client.close()
        await client.close()
        with pytest.raises(RuntimeError, match="closed"):
            await client.request("GET", "http://127.0.0.1:1/")

    http.run(scenario)
