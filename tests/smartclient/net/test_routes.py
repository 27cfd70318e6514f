"""Who may share a connection with whom."""

from __future__ import annotations

import gc
import ssl
import weakref

from smartclient._call import Origin
from smartclient.net.options import NetOptions
from smartclient.net.routes import Routes

PLAIN, SECURE = Origin("http", "a.example", 80), Origin("https", "a.example", 443)


def test_clients_with_equal_options_have_one_route():
    assert Routes(NetOptions()).to(SECURE) is Routes(NetOptions(idle_expiry=5.0)).to(SECURE)


def test_another_origin_or_limit_is_another_route():
    routes = Routes(NetOptions())

    assert routes.to(PLAIN) is not routes.to(SECURE)
    assert Routes(NetOptions(max_connections=3)).to(PLAIN) is not routes.to(PLAIN)


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
