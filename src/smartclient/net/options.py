"""What can be set about connections, and the bounds that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from .._clock import SystemClock

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = [
    "DEFAULTS",
    "DRAIN_BYTES",
    "DRAIN_TIME",
    "DRAIN_WAIT",
    "REAL",
    "SYSTEM_CLOCK",
    "NetOptions",
]

DRAIN_BYTES = 64 * 1024
"""Most bytes of a finished reply that are taken in so that its connection can be kept."""

DRAIN_TIME = 0.1
"""Most seconds for which such a reply's end is awaited."""

DRAIN_WAIT = 0.02
"""Most of them that the next call waits: less than it takes to open a connection."""


class NetOptions(Struct, frozen=True, kw_only=True):
    """How connections are opened and kept; clients that agree on these share them.

    Made from `Settings`, which has checked them.

    Args:
        max_connections: Most connections to one origin; further calls are queued.
        idle_expiry: Seconds that an idle connection is kept; `None` keeps it until the
            server closes it. A server that announces a shorter time is believed.
        ca_file: PEM file of the authorities to trust; `None` means `SSL_CERT_FILE` and
            `SSL_CERT_DIR` where they are set, else certifi's list.
        ssl_context: A context of your own, used as it is; it excludes `ca_file`.
    """

    max_connections: int = 1000
    idle_expiry: float | None = 60.0
    ca_file: str | None = None
    ssl_context: SSLContext | None = None


DEFAULTS = NetOptions()
SYSTEM_CLOCK = SystemClock()

REAL = SYSTEM_CLOCK.monotonic
"""The time of sockets: how long one is opened, drained or kept, whatever a client's clock says.

Clients with different clocks share connections, and what a clock is told to skip, no server
has waited."""
