"""What httpx lets a request ask for, and tells of a reply, beside their bytes."""

from __future__ import annotations

import ssl

import pytest

import server_reference
import smartclient
from server_reference.scripted import ErrorAnswer
from tests.sdk_matrix.sides import EVERY, settled

pytestmark = pytest.mark.sdk


def at_once(state):
    """A tenacity `wait`: no test waits."""
    return 0.0


async def raw(side, client):
    given = {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}
    answer = await settled(side.resource(client).with_raw_response.create(**given))
    return answer.http_response


def extended(side, **extensions):
    """An HTTP client that gives each request `extensions`."""

    def add(request):
        request.extensions |= extensions

    async def add_async(request):
        add(request)

    return side.http(event_hooks={"request": [add_async if side.is_async else add]})


@EVERY
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "wrapped"])
async def test_a_reply_tells_which_connection_carried_it(side, wrapped):
    with server_reference.scripted("Paris") as server:
        client = side.client(server)
        response = await raw(side, smartclient.wrap(client) if wrapped else client)
        stream = response.extensions["network_stream"]
        assert stream.get_extra_info("server_addr")[1] == server.port
        assert stream.get_extra_info("client_addr")[0] == "127.0.0.1"
        assert stream.get_extra_info("ssl_object") is None
        assert stream.get_extra_info("socket").fileno() >= 0
        assert stream.get_extra_info("favourite colour") is None
        await side.close(client)

    assert (response.http_version, response.reason_phrase) == ("HTTP/1.1", "OK")


@EVERY
async def test_a_reply_over_tls_tells_of_it(side):
    with server_reference.scripted("Paris", tls=True) as server:
        trusted = ssl.create_default_context(cafile=server.ca_file)
        client = side.client(server, http_client=side.http(verify=trusted))
        response = await raw(side, smartclient.wrap(client))
        tls = response.extensions["network_stream"].get_extra_info("ssl_object")
        assert tls.version() == "TLSv1.3"
        await side.close(client)


@EVERY
async def test_callbacks_are_called_at_each_step_of_each_attempt(side):
    steps = []

    def note(name, info):
        steps.append(name)

    async def note_async(name, info):
        note(name, info)

    with server_reference.scripted([ErrorAnswer(503), "Paris"]) as server:
        http = extended(side, trace=note_async if side.is_async else note)
        client = smartclient.wrap(side.client(server, http_client=http), wait=at_once)
        answer = await side.ask(client)
        await side.close(client)

    assert side.text(answer) == "Paris"
    assert steps.count("connection.connect_tcp.complete") == 1
    assert steps.count("http11.receive_response_headers.complete") == 2


@EVERY
async def test_another_name_is_shown_in_the_handshake(side):
    with server_reference.scripted("Paris", tls=True) as server:
        trusted = ssl.create_default_context(cafile=server.ca_file)
        http = extended(side, sni_hostname="localhost")
        http._transport = type(http._transport)(verify=trusted)
        client = smartclient.wrap(side.client(server, http_client=http))
        response = await raw(side, client)
        tls = response.extensions["network_stream"].get_extra_info("ssl_object")
        assert tls.server_hostname == "localhost"
        await side.close(client)


@EVERY
async def test_an_upgrade_is_the_callers_own_connection(side):
    with server_reference.scripted("Paris") as server:
        client = smartclient.wrap(side.client(server))
        below = client._client._transport.inner._pool
        given = {"extra_headers": {"upgrade": "websocket"}}
        protocols, opened = [], []
        for more in ({}, given):
            answer = await side.ask(client, **more)
            protocols.append(smartclient.last_report(client).protocol)
            opened.append(len(below.connections))
        await side.close(client)

    assert side.text(answer) == "Paris"
    assert protocols == ["HTTP/1.1", None]
    assert opened == [0, 1]
