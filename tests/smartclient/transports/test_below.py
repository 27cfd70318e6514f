"""A family's own transport, made with our settings."""

from __future__ import annotations

import socket
import sys

import httpx
import httpx2
import pytest
from msgspec.structs import replace

from smartclient._call import Headers
from smartclient.net.options import NetOptions
from smartclient.net.proxies import Bypass, Proxies
from smartclient.net.proxy import proxy_of
from smartclient.net.tls import Trust
from smartclient.transports.below import Below

LOGIN = "http://me:p%40ss@proxy.test:3128"


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def family(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["blocking", "async"])
def is_async(request):
    return request.param


def pool_for(below, family, url):
    return below._to(family.Request("GET", url))._pool


def test_it_is_the_familys_own_with_the_settings(family, is_async):
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    given = NetOptions(max_connections=7, idle_expiry=3.0, socket_options=tuple(options))

    below = Below(family, given, is_async=is_async)

    kind = family.AsyncHTTPTransport if is_async else family.HTTPTransport
    pool = below.direct._pool
    assert type(below.direct) is kind
    assert (pool._max_connections, pool._keepalive_expiry) == (7, 3.0)
    assert (list(pool._socket_options), pool._local_address, pool._uds) == (options, None, None)


@pytest.mark.parametrize("way", [{"uds": "/run/socket"}, {"local_address": "127.0.0.1"}])
def test_the_way_out_is_the_settings(family, is_async, way):
    pool = Below(family, NetOptions(**way), is_async=is_async).direct._pool

    assert {name: getattr(pool, f"_{name}") for name in way} == way


@pytest.mark.parametrize(
    ("version", "speaks"),
    [("auto", (True, False)), ("1.1", (True, False)), ("2", (False, True))],
)
def test_the_protocol_is_the_settings_and_plain_where_both_would_do(
    family, is_async, version, speaks
):
    pool = Below(family, NetOptions(http_version=version), is_async=is_async).direct._pool

    assert (pool._http1, pool._http2) == speaks


@pytest.mark.parametrize("version", ["auto", "1.1", "2"])
def test_its_context_is_none_whose_offer_would_change(family, is_async, version):
    """The family sets what is offered in the context itself, before each handshake."""
    given = NetOptions(http_version=version)

    pool = Below(family, given, is_async=is_async).direct._pool

    sets = ("http/1.1", "h2") if pool._http2 else ("http/1.1",)
    ours = [Trust.of(given, one) for one in ("auto", "1.1", "2")]
    assert [one.context() is pool._ssl_context for one in ours] == [
        one.alpn == sets for one in ours
    ]


def test_each_origin_has_its_proxy(family, is_async):
    told = replace(proxy_of(LOGIN), fields=Headers({"x-team": "a"}))
    proxies = Proxies(None, told, (Bypass.of("near.test"),))
    below = Below(family, NetOptions(proxies=proxies), is_async=is_async)

    far = pool_for(below, family, "https://far.test/")

    assert (far._proxy_url.host, far._proxy_url.port) == (b"proxy.test", 3128)
    assert (b"proxy-authorization", b"Basic bWU6cEBzcw==") in far._proxy_headers
    assert (b"x-team", b"a") in far._proxy_headers
    assert pool_for(below, family, "https://far.test/") is far
    assert pool_for(below, family, "https://near.test/") is below.direct._pool
    assert pool_for(below, family, "http://far.test/") is below.direct._pool


def test_a_proxy_over_tls_is_trusted_as_an_origin_is(family, is_async):
    given = NetOptions(proxies=Proxies.all(proxy_of("https://proxy.test")))

    pool = pool_for(Below(family, given, is_async=is_async), family, "http://a.test/")

    assert pool._proxy_ssl_context is Trust.of(given).context()


def test_a_socks_proxy_needs_what_the_family_needs(family, is_async, monkeypatch):
    monkeypatch.setitem(sys.modules, "socksio", None)
    given = NetOptions(proxies=Proxies.all(proxy_of("socks5h://proxy.test")))

    with pytest.raises(ImportError, match="socksio"):
        pool_for(Below(family, given, is_async=is_async), family, "http://a.test/")


@pytest.mark.parametrize(
    ("scheme", "way"),
    [
        pytest.param("http", {"local_address": "127.0.0.1"}, id="address"),
        pytest.param("socks5", {"socket_options": ((1, 9, 1),)}, id="socks-option"),
    ],
)
def test_a_way_that_the_family_would_forget_is_refused(family, is_async, scheme, way):
    proxies = Proxies.all(proxy_of(f"{scheme}://proxy.test:1"))
    below = Below(family, NetOptions(proxies=proxies, **way), is_async=is_async)

    with pytest.raises(RuntimeError, match=f"no effect on the way to {scheme}://proxy.test:1"):
        pool_for(below, family, "http://a.test/")


def test_closing_closes_all_of_them(family, world):
    proxies = Proxies(None, proxy_of(LOGIN))
    below = Below(family, NetOptions(proxies=proxies), is_async=world.is_async)
    pool_for(below, family, "https://far.test/")
    closed = []
    for one in below._by_proxy.values():
        end = type(one).aclose if world.is_async else type(one).close
        name = end.__name__
        setattr(one, name, lambda one=one, end=end: closed.append(one) or end(one))

    assert world.enter(below) is below
    world.do(below.aclose() if world.is_async else below.close())

    assert closed == list(below._by_proxy.values())
    assert len(closed) == 2


def test_a_login_that_is_no_text_is_given_as_bytes_or_refused_without_being_shown(family):
    way = Proxies.all(proxy_of("http://me:%ffs3cret@proxy.test:3128"))
    pool = pool_for(Below(family, NetOptions(proxies=way), is_async=False), family, "http://a.test")
    assert dict(pool._proxy_headers)[b"proxy-authorization"] == b"Basic bWU6/3MzY3JldA=="

    way = Proxies.all(proxy_of("socks5://me:%ffs3cret@proxy.test"))
    with pytest.raises(ValueError, match="must be UTF-8") as caught:
        pool_for(Below(family, NetOptions(proxies=way), is_async=False), family, "http://a.test")
    assert (type(caught.value), caught.value.__context__) == (ValueError, None)
