"""The steps that open a connection, as a generator that blocking and asyncio code drive alike.

A step is yielded and its answer sent back; an `OSError` of a step is thrown in, and becomes
the error that the caller sees. How long it may take, and what it is timed as, the driver
knows.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from . import failures
from .routes import Route
from .tcp import Address, numeric_addresses

if TYPE_CHECKING:
    from .tls import Trust

__all__ = ["Connect", "Dial", "Resolve", "Secure", "Step", "dial"]


class Resolve(Struct, frozen=True):
    """Look up a name; answered with its addresses."""

    host: str
    port: int


class Connect(Struct, frozen=True):
    """Connect to one of these addresses."""

    addresses: list[Address]


class Secure(Struct, frozen=True):
    """Shake hands over what is connected, as whoever talks to `host`."""

    host: str
    trust: Trust


Step: TypeAlias = Resolve | Connect | Secure
Dial: TypeAlias = Generator[Step, Any, None]


def dial(route: Route) -> Dial:
    """Open the way of `route`.

    Raises:
        ExchangeError: Of kind resolve, connect, tls or certificate.
    """
    origin = route.origin
    addresses = numeric_addresses(origin.host, origin.port)
    if addresses is None:
        try:
            addresses = yield Resolve(origin.host, origin.port)
        except (OSError, UnicodeError) as error:
            raise failures.unresolved(origin, error) from error
    try:
        yield Connect(addresses)
    except OSError as error:
        raise failures.unopened(origin, error, tried=len(addresses)) from error
    if route.trust is not None:
        try:
            yield Secure(origin.host, route.trust)
        except OSError as error:
            from .tls import tls_failure

            raise tls_failure(origin, error, route.trust) from error
