"""What can be set about connections, and the bounds that cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from .._clock import SystemClock

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["DEFAULTS", "DRAIN_BYTES", "DRAIN_TIME", "DRAIN_WAIT", "SYSTEM_CLOCK", "NetOptions"]

DRAIN_BYTES = 64 * 1024
"""Most bytes of a finished reply that are taken in so that its connection can be kept."""

DRAIN_TIME = 0.1
"""Most seconds for which such a reply's end is awaited."""

DRAIN_WAIT = 0.02
"""Most of them that the next call waits: less than it takes to open a connection."""


class NetOptions(Struct, frozen=True, kw_only=True):
    """How connections are opened and kept; clients that agree on these share them.

    Args:
        max_connections: Most connections to one origin; further calls are queued.
        idle_expiry: Seconds that an idle connection is kept; `None` keeps it until the
            server closes it. A server that announces a shorter time is believed.
        verify: Whether certificates are checked. Off, anybody on the way can read the key.
        ca_file: PEM file of the authorities to trust; `None` means `SSL_CERT_FILE` and
            `SSL_CERT_DIR` where they are set, else certifi's list.
        ssl_context: A context of your own, used as it is; it excludes the two above.
        keepalive: Seconds of silence after which TCP asks whether the peer is still there,
            so that a dropped NAT entry is noticed; `None` does not ask.
    """

    max_connections: int = 1000
    idle_expiry: float | None = 60.0
    verify: bool = True
    ca_file: str | None = None
    ssl_context: SSLContext | None = None
    keepalive: float | None = 60.0

    def __post_init__(self) -> None:
        if self.max_connections < 1:
            raise ValueError(f"max_connections must be at least 1, not {self.max_connections}")
        if self.idle_expiry is not None and self.idle_expiry < 0:
            raise ValueError(
                f"idle_expiry must be at least 0 s, not {self.idle_expiry:g}; "
                "use None to keep idle connections until the server closes them"
            )
        if self.keepalive is not None and self.keepalive < 1:
            raise ValueError(
                f"keepalive must be at least 1 s, not {self.keepalive:g}; use None for no probes"
            )
        if self.ssl_context is not None and (self.ca_file is not None or not self.verify):
            raise ValueError(
                "ssl_context already says whom to trust; leave out ca_file and verify, "
                "or set them on the context"
            )


DEFAULTS = NetOptions()
SYSTEM_CLOCK = SystemClock()
