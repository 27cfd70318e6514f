"""Calls through proxies that really run: forwarded, tunnelled, over TLS, by SOCKS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

import server_reference
from smartclient._errors import ExchangeError
from smartclient.net.proxies import Proxies
from smartclient.net.proxy import Proxy, proxy_of

from .net_sides import read_all
from .proxies import HttpProxy, SocksProxy
from .raw_server import RawServer, forever, reply

LOGIN = "me:p@ss%20word"
ASKED = b'{"model": "any", "max_tokens": 8, "messages": []}'
IN_URL = "me:p%40ss%2520word"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def of_server(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.fixture
def plain() -> Iterator[RawServer]:
    with RawServer(forever(reply)) as running:
        yield running


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[RawServer]:
    """An origin that only a proxy finds: nobody else can look up its name."""
    context = of_server(authority, "origin.test", "127.0.0.1")
    with RawServer(forever(reply), tls=context) as running:
        yield running


def through(url: str) -> Proxies:
    proxy = proxy_of(url)
    assert isinstance(proxy, Proxy)
    return Proxies.all(proxy)


def with_login(address: str, login: str = IN_URL) -> str:
    scheme, found, rest = address.rpartition("://")
    return f"{scheme}{found}{login}@{rest}" if found else f"{login}@{address}"


def named(server: RawServer) -> str:
    return server.url.replace("127.0.0.1", "origin.test")


def test_a_plain_origin_is_reached_by_forwarded_requests_over_one_connection(side, plain):
    async def scenario():
        client = side.client(proxies=through(with_login(proxy.address)))
        first = await client.fetch(named(plain))
        _, timeline = await client.send(named(plain))
        assert first.startswith(b"POST /v1/messages HTTP/1.1\r\n")
        assert f"\r\nhost: origin.test:{plain.port}\r\n".encode() in first
        assert timeline.reused

    with HttpProxy(LOGIN) as proxy:
        side.run(scenario)

    assert proxy.asked == [f"POST {named(plain)}"] * 2
    assert proxy.num_connections == 1


@pytest.mark.parametrize("over_tls", [False, True], ids=["http-proxy", "https-proxy"])
def test_a_secure_origin_is_reached_through_one_tunnel(side, secure, authority, ca_file, over_tls):
    body = bytes(range(256)) * 1_000

    async def scenario():
        client = side.client(proxies=through(with_login(proxy.address)), ca_file=ca_file)
        seen = await client.fetch(named(secure), body=body)
        assert seen.endswith(b"\r\n\r\n" + body)
        assert b"proxy-authorization" not in seen
        _, timeline = await client.send(named(secure))
        assert timeline.reused

    tls = of_server(authority, "127.0.0.1") if over_tls else None
    with HttpProxy(LOGIN, tls=tls) as proxy:
        side.run(scenario)

    assert proxy.asked == [f"CONNECT origin.test:{secure.port}"]
    assert (proxy.num_connections, secure.num_connections) == (1, 1)


@pytest.mark.parametrize(
    ("scheme", "asked"),
    [
        pytest.param("socks5", "127.0.0.1", id="looked-up-here"),
        pytest.param("socks5h", "name localhost", id="looked-up-there"),
    ],
)
@pytest.mark.parametrize("login", ["", LOGIN], ids=["open", "login"])
def test_socks_leads_to_an_origin(side, plain, scheme, asked, login):
    async def scenario():
        address = with_login(proxy.address) if login else proxy.address
        client = side.client(proxies=through(f"{scheme}://{address}"))
        url = plain.url.replace("127.0.0.1", "localhost")
        assert (await client.fetch(url)).startswith(b"POST /v1/messages HTTP/1.1\r\n")
        _, timeline = await client.send(url)
        assert timeline.reused

    with SocksProxy(login) as proxy:
        side.run(scenario)

    assert proxy.asked == [f"{asked}:{plain.port}"]


@pytest.fixture
def many_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The origin's name has three."""
    found = [
        (socket.AF_INET6, "2001:db8::1"),
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET6, "::1"),
    ]
    real = socket.getaddrinfo

    def look_up(host, port, *what, **how):
        if host != "origin.test":
            return real(host, port, *what, **how)
        return [(family, 1, 6, "", (address, port)) for family, address in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.usefixtures("many_addresses")
@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_socks_is_asked_for_every_address_of_the_origin(side, plain, secure, ca_file, is_tls):
    origin = secure if is_tls else plain

    async def scenario():
        client = side.client(proxies=through(f"socks5://{proxy.address}"), ca_file=ca_file)
        _, timeline = await client.send(named(origin))
        assert timeline.tcp.start <= timeline.tcp.end
        assert side.counts() == (1, 0, 0)

    with SocksProxy(reply={"2001:db8::1": 8}) as proxy:
        side.run(scenario)

    assert proxy.asked == [f"2001:db8::1:{origin.port}", f"127.0.0.1:{origin.port}"]
    assert (proxy.num_connections, origin.num_connections) == (2, 1)


@pytest.mark.usefixtures("many_addresses")
def test_socks_that_reaches_no_address_says_so_after_the_last(side, plain):
    async def scenario():
        client = side.client(proxies=through(f"socks5://{proxy.address}"))
        with pytest.raises(ExchangeError, match="SOCKS reply 4 to the last of 3 addresses"):
            await client.fetch(named(plain))
        assert side.counts() == (0, 0, 0)

    with SocksProxy(reply=4) as proxy:
        side.run(scenario)
        assert proxy.wait_closed(3)


@pytest.mark.parametrize("over_tls", [False, True], ids=["http-proxy", "https-proxy"])
def test_http2_is_spoken_with_the_origin_through_the_tunnel(side, authority, ca_file, over_tls):
    async def scenario():
        client = side.client(proxies=through(proxy.address), ca_file=ca_file, http_version="2")
        for _ in range(3):
            reply, timeline = await client.send(f"{provider.base_url}/v1/messages", body=ASKED)
            assert (reply.status, timeline.protocol) == (200, "HTTP/2")
            await read_all(reply)
        assert timeline.reused

    tls = of_server(authority, "127.0.0.1") if over_tls else None
    with server_reference.scripted("Hi.", tls=True) as provider, HttpProxy(tls=tls) as proxy:
        both = Path(ca_file)
        both.write_text(both.read_text() + Path(provider.ca_file).read_text())
        side.run(scenario)

    assert len(proxy.asked) == 1


def test_the_handshake_with_a_proxy_is_timed_as_tcp(side, secure, authority, ca_file):
    async def scenario():
        client = side.client(proxies=through(proxy.address), ca_file=ca_file)
        _, timeline = await client.send(named(secure))
        assert timeline.dns is None
        assert timeline.tcp.end <= timeline.tls.start < timeline.tls.end <= timeline.send.start

    with HttpProxy(tls=of_server(authority, "127.0.0.1")) as proxy:
        side.run(scenario)
