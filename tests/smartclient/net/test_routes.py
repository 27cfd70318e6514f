"""Who may share a connection with whom."""

from __future__ import annotations

import gc
import ssl
import weakref

import pytest

from smartclient._call import Origin
from smartclient.net.options import NetOptions
from smartclient.net.proxies import Proxies
from smartclient.net.proxy import proxy_of
from smartclient.net.routes import Routes

PLAIN, SECURE = Origin("http", "a.example", 80), Origin("https", "a.example", 443)


def test_clients_with_equal_options_have_one_route():
    assert Routes(NetOptions()).to(SECURE) is Routes(NetOptions(idle_expiry=5.0)).to(SECURE)


def test_another_origin_is_another_route():
    routes = Routes(NetOptions())

    assert routes.to(PLAIN) is not routes.to(SECURE)


def test_another_limit_is_the_same_route():
    assert Routes(NetOptions(max_connections=3)).to(PLAIN) is Routes(NetOptions()).to(PLAIN)


@pytest.mark.parametrize("life", [{"max_requests": 1}, {"max_age": 60.0}, {"max_age": None}])
def test_another_life_is_another_route(life):
    """Or a connection would carry more than one of those who share it wants."""
    assert Routes(NetOptions(**life)).to(PLAIN) is Routes(NetOptions(**life)).to(PLAIN)
    assert Routes(NetOptions(**life)).to(PLAIN) is not Routes(NetOptions()).to(PLAIN)


def test_own_contexts_share_nothing():
    one, other = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))

    assert Routes(NetOptions(ssl_context=one)).to(SECURE) is not Routes(
        NetOptions(ssl_context=other)
    ).to(SECURE)


def test_a_plain_origin_trusts_nobody():
    """So that a client's own context does not part it from others there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    assert Routes(NetOptions(ssl_context=context)).to(PLAIN) is Routes(NetOptions()).to(PLAIN)


def test_a_route_that_nobody_uses_lets_its_context_go():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    gone = weakref.ref(context)
    Routes(NetOptions(ssl_context=context)).to(SECURE)

    del context
    gc.collect()

    assert gone() is None


def through(url, **options):
    return Routes(NetOptions(proxies=Proxies.all(proxy_of(url)), **options))


def test_proxies_with_other_logins_are_other_routes():
    one, same, other = (through(f"http://me:{pw}@p.example") for pw in ("a", "a", "b"))

    assert one.to(SECURE) is same.to(SECURE)
    assert one.to(SECURE) is not other.to(SECURE)
    assert one.to(SECURE) is not Routes(NetOptions()).to(SECURE)


@pytest.mark.parametrize(
    "options",
    [
        {"uds": "/tmp/s"},
        {"local_address": "127.0.0.1"},
        {"socket_options": ((1, 2, 3),)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_another_way_out_of_this_machine_is_another_route(options):
    route = Routes(NetOptions(**options)).to(PLAIN)

    assert route is Routes(NetOptions(**options)).to(PLAIN)
    assert route is not Routes(NetOptions()).to(PLAIN)


@pytest.mark.parametrize(
    ("url", "origin", "is_forwarded"),
    [
        ("http://p", PLAIN, True),
        ("https://p", PLAIN, True),
        ("http://p", SECURE, False),
        ("socks5://p", PLAIN, False),
    ],
)
def test_only_http_proxies_are_given_the_requests_of_plain_origins(url, origin, is_forwarded):
    assert (through(url).to(origin).forwarder is not None) is is_forwarded


def test_an_https_proxy_is_trusted_by_a_context_of_its_own_where_there_is_one():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    own = through("https://p", proxy_context=context).to(SECURE)
    usual = through("https://p").to(SECURE)

    assert own.proxy_trust.context() is context
    assert own.trust.context() is not context
    assert usual.proxy_trust.source == usual.trust.source


def test_http2_without_tls_is_no_request_to_forward():
    with pytest.raises(ValueError, match="needs a direct connection"):
        through("http://p", http_version="2").to(PLAIN)

    assert through("socks5h://p", http_version="2").to(PLAIN).proxy is not None


def test_a_route_does_not_show_the_password():
    assert "s3cret" not in repr(through("http://me:s3cret@p").to(SECURE))
