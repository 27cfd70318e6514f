"""What can be set about connections, and the bounds that cannot."""

from __future__ import annotations

import os
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from .._clock import SystemClock
from .proxies import Proxies
from .secret import SecretBytes

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = [
    "ALPN",
    "DEFAULTS",
    "DRAIN_BYTES",
    "DRAIN_TIME",
    "DRAIN_WAIT",
    "MOST_CONNECTIONS",
    "REAL",
    "SYSTEM_CLOCK",
    "HttpVersion",
    "Identity",
    "NetOptions",
    "identity_of",
]

HttpVersion: TypeAlias = Literal["auto", "1.1", "2"]
"""`auto` offers both where there is TLS; `2` insists on it, without TLS by prior knowledge."""

ALPN: dict[HttpVersion, list[str]] = {
    "auto": ["h2", "http/1.1"],
    "1.1": ["http/1.1"],
    "2": ["h2"],
}
"""What is offered over TLS, the best first."""

DRAIN_BYTES = 64 * 1024
"""Most bytes of a finished reply that are taken in so that its connection can be kept."""

DRAIN_TIME = 0.1
"""Most seconds for which such a reply's end is awaited."""

DRAIN_WAIT = 0.02
"""Most of them that the next call waits: less than it takes to open a connection."""


MOST_CONNECTIONS = 1000
"""Most connections to one origin, whoever uses them, unless a client asks for more."""


class Identity(Struct, frozen=True):
    """Files of a client certificate, PEM; the key may be in the certificate's own."""

    cert_file: str
    key_file: str | None = None
    password: SecretBytes | None = None


def identity_of(given: Any) -> Identity | None:
    """Client certificate files, from what a caller gives.

    Raises:
        TypeError: It is neither a path nor a tuple of these.
    """
    if given is None or isinstance(given, Identity):
        return given
    parts = (given,) if isinstance(given, (str, os.PathLike)) else given
    if (
        not isinstance(parts, (tuple, list))
        or not 1 <= len(parts) <= 3
        or not isinstance(parts[0], (str, os.PathLike))
        or not all(isinstance(part, (str, os.PathLike, NoneType)) for part in parts[1:2])
        or not all(isinstance(part, (str, bytes, NoneType)) for part in parts[2:])
    ):
        raise TypeError(
            "client_cert must be a path, or a tuple of the certificate's path, the key's and, "
            f"where it has one, its password, not {type(given).__name__}"
        )
    cert_file, key_file, password = (*parts, None, None)[:3]
    if isinstance(password, str):
        password = password.encode()
    return Identity(
        os.fspath(cert_file),
        None if key_file is None else os.fspath(key_file),
        None if password is None else SecretBytes(password),
    )


class NetOptions(Struct, frozen=True, kw_only=True):
    """How connections are opened and kept; clients that agree on these share them.

    Made from `Settings`, which has checked them.

    Args:
        max_connections: Most connections to one origin that this client uses at a time,
            where each call on one that several share (HTTP/2) counts like one; further calls
            are queued. More than the usual raises the bound of all who share them.
        http_version: Which protocols are spoken.
        idle_expiry: Seconds that an idle connection is kept; `None` keeps it until the
            server closes it. A server that announces a shorter time is believed, and one
            that closes sooner is remembered.
        max_age: Seconds after which a connection carries no further call; `None`: no limit.
        max_requests: Calls that a connection carries at most; `None`: no limit.
        ca_file: PEM file of the authorities to trust; `None` means `SSL_CERT_FILE` and
            `SSL_CERT_DIR` where they are set, else certifi's list.
        trust_store: Whose list counts where no file is named: certifi's, or the system's.
        client_cert: Who we say that we are.
        ssl_context: A context of your own, used as it is; it excludes `ca_file`.
        trust_env: Whether `SSL_CERT_FILE` and `SSL_CERT_DIR` are looked at.
        proxies: On the way to which origins.
        proxy_context: For TLS to an https proxy; `None`: as for an origin.
        uds: Path of a Unix socket behind which every origin is; it excludes `proxies`.
        local_address: IP address that connections are made from.
        socket_options: What `setsockopt` is given for each socket before it connects.
    """

    max_connections: int = MOST_CONNECTIONS
    http_version: HttpVersion = "auto"
    idle_expiry: float | None = 60.0
    max_age: float | None = 900.0
    max_requests: int | None = None
    ca_file: str | None = None
    trust_store: Literal["certifi", "system"] = "certifi"
    client_cert: Identity | None = None
    ssl_context: SSLContext | None = None
    trust_env: bool = True
    proxies: Proxies = Proxies()
    proxy_context: SSLContext | None = None
    uds: str | None = None
    local_address: str | None = None
    socket_options: tuple[tuple[int, int, int | bytes], ...] = ()

    @property
    def own_limit(self) -> int | None:
        """`max_connections`, where it is not what holds anyway."""
        return None if self.max_connections == MOST_CONNECTIONS else self.max_connections


DEFAULTS = NetOptions()
SYSTEM_CLOCK = SystemClock()

REAL = SYSTEM_CLOCK.monotonic
"""The time of sockets: how long one is opened, drained or kept, whatever a client's clock says.

Clients with different clocks share connections, and what a clock is told to skip, no server
has waited."""
