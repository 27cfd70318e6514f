"""Whose name a TLS handshake says where a proxy is in between.

The origin's own to the origin, which picks its certificate by it, and the proxy's to the
proxy; said wrongly by others (httpcore2 PR#1155 and #1223). An address is no name: RFC 6066,
section 3.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from smartclient._errors import ExchangeError
from smartclient.net.proxies import Proxies
from smartclient.net.proxy import Proxy, proxy_of

from .proxies import HttpProxy, SocksProxy
from .raw_server import RawServer, forever, reply

AUTHORITY = trustme.CA()


class Named:
    """A server's context that knows by which names it was called; `None`: by none.

    Attributes:
        said: What each handshake said.
    """

    def __init__(self, *names: str) -> None:
        self.said: list[str | None] = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        AUTHORITY.issue_cert(*names).configure_cert(self.context)
        self.context.sni_callback = lambda tls, name, context: self.said.append(name)


@pytest.fixture
def ca_file(tmp_path: Path) -> str:
    path = tmp_path / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(path)
    return str(path)


@pytest.fixture(params=["http", "https", "socks5h"])
def way(request: pytest.FixtureRequest) -> Iterator[tuple[str, Named]]:
    """The URL of a proxy, and what its own handshakes said."""
    near = Named("localhost")
    if request.param == "socks5h":
        with SocksProxy() as socks:
            yield f"socks5h://{socks.address}", near
        return
    with HttpProxy(tls=near.context if request.param == "https" else None) as proxy:
        yield f"{request.param}://localhost:{proxy.port}", near


def through(url: str) -> Proxies:
    proxy = proxy_of(url)
    assert isinstance(proxy, Proxy)
    return Proxies.all(proxy)


def test_the_origin_is_told_its_own_name_and_the_proxy_the_proxys(side, way, ca_file):
    url, near = way
    far = Named("origin.test")

    async def scenario():
        client = side.client(proxies=through(url), ca_file=ca_file)
        named = origin.url.replace("127.0.0.1", "origin.test")
        assert await client.fetch(named) == b"ok"

    with RawServer(forever(reply()), tls=far.context) as origin:
        side.run(scenario)

    assert far.said == ["origin.test"]
    assert near.said == (["localhost"] if url.startswith("https") else [])


def test_an_address_is_no_name_and_is_not_said(side, way, ca_file):
    url, _ = way
    far = Named("127.0.0.1")

    async def scenario():
        client = side.client(proxies=through(url), ca_file=ca_file)
        assert await client.fetch(origin.url) == b"ok"

    with RawServer(forever(reply()), tls=far.context) as origin:
        side.run(scenario)

    assert far.said == [None]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("localhost", id="of-the-proxy"),
        pytest.param("127.0.0.1", id="of-the-address-behind-the-name"),
    ],
)
def test_a_certificate_for_anybody_else_is_refused(side, way, ca_file, name):
    url, _ = way
    far = Named(name)

    async def scenario():
        client = side.client(proxies=through(url), ca_file=ca_file)
        named = origin.url.replace("127.0.0.1", "origin.test")
        with pytest.raises(ExchangeError, match=r"certificate of https://origin\.test") as error:
            await client.fetch(named)
        assert error.value.kind == "certificate"

    with RawServer(forever(reply()), tls=far.context) as origin:
        side.run(scenario)

    assert far.said == ["origin.test"]


def test_an_origin_of_http2_is_told_its_name_by_either_kind_of_handshake(side, way, ca_file):
    url, near = way
    far = Named("origin.test")
    far.context.set_alpn_protocols(["http/1.1"])

    async def scenario():
        client = side.client(proxies=through(url), ca_file=ca_file, http_version="2")
        with pytest.raises(ExchangeError, match="wants h2") as error:
            await client.fetch(origin.url.replace("127.0.0.1", "origin.test"))
        assert error.value.kind == "unsupported"

    with RawServer(forever(reply()), tls=far.context) as origin:
        side.run(scenario)

    assert far.said == ["origin.test"]
    assert near.said == (["localhost"] if url.startswith("https") else [])
