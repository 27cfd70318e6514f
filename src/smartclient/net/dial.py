"""The steps that open a connection, as a generator that blocking and asyncio code drive alike.

A step is yielded and its answer sent back; an `OSError` of a step is thrown in, and becomes
the error that the caller sees. How long it may take, and what it is timed as, the driver
knows.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from . import failures, refusals, tunnel
from .proxy import Proxy
from .routes import Route
from .tcp import Address, numeric_addresses, of_family, unix_address
from .tunnel import Receive, SecureProxy, Send

if TYPE_CHECKING:
    from .tls import Trust

__all__ = ["Connect", "Dial", "Receive", "Resolve", "Secure", "SecureProxy", "Send", "Step", "dial"]


class Resolve(Struct, frozen=True):
    """Look up a name; answered with its addresses."""

    host: str
    port: int


class Connect(Struct, frozen=True):
    """Connect to one of these addresses, in the place of what was connected before."""

    addresses: list[Address]


class Secure(Struct, frozen=True):
    """Shake hands over what is connected, as whoever talks to `host`.

    Answered with the protocol that ALPN chose, or `None`.
    """

    host: str
    trust: Trust


Step: TypeAlias = Resolve | Connect | Secure | SecureProxy | Send | Receive
Dial: TypeAlias = Generator[Step, Any, None]


def dial(route: Route) -> Dial:
    """Open the way of `route`.

    Raises:
        ExchangeError: Of kind resolve, connect, proxy, tls or certificate.
    """
    origin = route.origin
    if route.uds is not None:
        yield from _connect(route, [unix_address(route.uds)])
    elif route.proxy is not None:
        yield from _through(route, route.proxy)
    else:
        addresses = yield from _addresses(route, origin.host, origin.port)
        yield from _connect(route, addresses)
    if route.trust is not None:
        try:
            spoken = yield Secure(origin.host, route.trust)
        except OSError as error:
            from .tls import tls_failure

            raise tls_failure(origin, error, route.trust) from error
        if (spoken == "h2") is not (route.http_version == "2") and route.http_version != "auto":
            raise failures.other_protocol(origin, spoken, wanted=route.http_version)


def _addresses(
    route: Route, host: str, port: int, via: Proxy | None = None
) -> Generator[Step, Any, list[Address]]:
    addresses = numeric_addresses(host, port)
    if addresses is None:
        try:
            addresses = yield Resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise failures.unresolved(route.origin, error, via) from error
    return addresses


def _connect(route: Route, addresses: list[Address], via: Proxy | None = None) -> Dial:
    fitting = addresses
    if route.local_address is not None:
        fitting = of_family(addresses, route.local_address)
        if not fitting:
            raise failures.other_family(route.origin, route.local_address, via)
    try:
        yield Connect(fitting)
    except OSError as error:
        raise failures.unopened(route.origin, error, at=_told(route, fitting), via=via) from error


def _told(route: Route, tried: list[Address]) -> str:
    """Where it was tried, as an error tells it."""
    if route.uds is not None:
        return f"the Unix socket {route.uds}"
    at = "its address" if len(tried) == 1 else f"any of its {len(tried)} addresses"
    return at if route.local_address is None else f"{at}, from local_address {route.local_address}"


def _through(route: Route, proxy: Proxy) -> Dial:
    """Connect to the proxy, and be led on to the origin or, in plain HTTP, let it carry on."""
    if proxy.is_socks:
        yield from _by_socks(route, proxy)
        return
    origin = route.origin
    addresses = yield from _addresses(route, proxy.host, proxy.port, proxy)
    yield from _connect(route, addresses, proxy)
    if route.proxy_trust is not None:
        try:
            spoken = yield SecureProxy(proxy.host, route.proxy_trust)
        except OSError as error:
            from .tls import tls_failure

            raise tls_failure(origin, error, route.proxy_trust, proxy) from error
        if spoken == "h2":
            raise refusals.speaks_http2(origin, proxy)
    if route.forwarder is not None:
        return
    try:
        yield from tunnel.connect(origin, proxy)
    except (OSError, UnicodeError) as error:
        raise refusals.lost_proxy(origin, proxy, error) from error


def _by_socks(route: Route, proxy: Proxy) -> Dial:
    """Connect to the proxy and be led on, to one address after another while it refuses."""
    origin = route.origin
    targets: Sequence[Address | None] = [None]  # the proxy looks the name up
    if proxy.scheme == "socks5":
        targets = yield from _addresses(route, origin.host, origin.port)
    elif known := numeric_addresses(origin.host, origin.port):
        targets = known
    addresses = yield from _addresses(route, proxy.host, proxy.port, proxy)
    reply = tried = 0
    for target in targets:
        tried += 1
        # A connection each: a proxy closes the one on which it has refused (RFC 1928).
        yield from _connect(route, addresses, proxy)
        try:
            reply = yield from tunnel.socks(origin, proxy, target)
        except (OSError, UnicodeError) as error:
            raise refusals.lost_proxy(origin, proxy, error) from error
        if reply not in tunnel.NOT_THERE:
            break
    if reply:
        raise refusals.refused_by_socks(origin, proxy, reply, tried=tried)
