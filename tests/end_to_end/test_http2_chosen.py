"""Which protocol is spoken: what is asked for, what is offered, and what lies between."""

from __future__ import annotations

import ssl

import pytest

import server_reference
from server_reference.scripted import rule
from server_reference.scripted.ops import Body, End, Head
from smartclient._errors import ExchangeError
from smartclient.net.proxies import Proxies
from smartclient.net.proxy import Proxy
from tests.end_to_end.proxies import HttpProxy, SocksProxy

OK = [Head(200), Body(b"ok"), End()]


@pytest.fixture(params=[True, False], ids=["both", "http1-alone"])
def server(request):
    with server_reference.scripted(rule(OK), tls=True, http2=request.param) as running:
        running.speaks_http2 = request.param
        yield running


@pytest.mark.parametrize("version", ["auto", "1.1", "2"])
def test_what_is_asked_for_is_spoken_or_an_error(side, server, version):
    takes_http2 = server.speaks_http2 and (side.name == "asyncio" or version == "2")

    async def scenario():
        client = side.client(http_version=version, ca_file=server.ca_file)
        if version == "2" and not server.speaks_http2:
            with pytest.raises(ExchangeError, match=r"ALPN|no TLS") as error:
                await client.send(server.base_url)
            assert error.value.sent == "nothing"
            return
        reply, timeline = await client.send(server.base_url)
        await reply.read()
        expected = "HTTP/2" if takes_http2 and version != "1.1" else "HTTP/1.1"
        assert (reply.protocol, timeline.protocol) == (expected, expected)

    side.run(scenario)


def test_auto_speaks_http1_without_tls(side):
    async def scenario():
        reply, _ = await side.client().send(server.base_url)
        await reply.read()
        assert reply.protocol == "HTTP/1.1"

    with server_reference.scripted(rule(OK)) as server:
        side.run(scenario)


@pytest.mark.parametrize(
    ("offered", "version", "protocol"),
    [
        pytest.param(None, "auto", "HTTP/1.1", id="nothing"),
        pytest.param(["h2", "http/1.1"], "2", "HTTP/2", id="both"),
        pytest.param(["h2"], "1.1", None, id="not-what-is-wanted"),
        pytest.param(None, "2", None, id="nothing-where-http2-is-wanted"),
    ],
)
def test_context_of_the_users_is_used_as_it_is(side, offered, version, protocol):
    async def scenario():
        context = ssl.create_default_context(cafile=server.ca_file)
        if offered is not None:
            context.set_alpn_protocols(offered)
        client = side.client(http_version=version, ssl_context=context)
        if protocol is None:
            with pytest.raises(ExchangeError, match=r"ALPN.*set_alpn_protocols") as error:
                await client.send(server.base_url)
            assert (error.value.kind, error.value.sent) == ("unsupported", "nothing")
            assert side.counts() == (0, 0, 0)
            return
        reply, _ = await client.send(server.base_url)
        await reply.read()
        assert reply.protocol == protocol

    with server_reference.scripted(rule(OK), tls=True) as server:
        side.run(scenario)


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [pytest.param(HttpProxy, "http", id="connect"), pytest.param(SocksProxy, "socks5", id="socks")],
)
def test_http2_leads_through_a_tunnel(side, kind, scheme):
    async def scenario():
        proxies = Proxies.all(Proxy(scheme=scheme, host="127.0.0.1", port=proxy.port))
        client = side.client(http_version="2", ca_file=server.ca_file, proxies=proxies)
        for _ in range(2):
            reply, _ = await client.send(server.base_url)
            assert (reply.protocol, await reply.read()) == ("HTTP/2", b"ok")

    with server_reference.scripted(rule(OK), tls=True) as server, kind() as proxy:
        side.run(scenario)

        assert len(proxy.asked) == 1


def test_prior_knowledge_does_not_lead_through_a_proxy(side):
    async def scenario():
        proxies = Proxies.all(Proxy(scheme="http", host="127.0.0.1", port=1))
        with pytest.raises(ValueError, match="needs a direct connection"):
            await side.client(http_version="2", proxies=proxies).send("http://127.0.0.1:2")

    side.run(scenario)
