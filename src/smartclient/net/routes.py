"""The way to an origin, and which of its parts two calls must agree on to share a connection."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

from msgspec import Struct, field
from msgspec.structs import astuple

from .._call import Origin
from .lifetime import Lifetime
from .options import HttpVersion, NetOptions
from .pool import Sharing
from .proxy import Proxy

if TYPE_CHECKING:
    from ssl import SSLContext

    from .tls import Trust

__all__ = ["Route", "Routes"]


class Route(Struct, frozen=True, eq=False, weakref=True, kw_only=True):
    """How an origin is reached; it is the key of a pool.

    There is one object for each way, whoever asks, so it is compared by identity.

    Attributes:
        trust: Whose certificates are accepted; `None` for a plain origin.
        proxy: Through which it is reached, credentials included.
        proxy_trust: Like `trust`, for an https proxy.
        uds: The Unix socket behind which it is.
        local_address: The IP address that connections are made from.
        socket_options: What each socket is set to.
        http_version: Which protocols are spoken.
        max_age: Seconds after which its connections carry no further call.
        max_requests: Calls that each of them carries at most.
        sharing: What its connections were found to be.
        life: How long idle ones were found to live.
    """

    origin: Origin
    trust: Trust | None
    proxy: Proxy | None = None
    proxy_trust: Trust | None = None
    uds: str | None = None
    local_address: str | None = None
    socket_options: tuple[tuple[int, int, int | bytes], ...] = ()
    http_version: HttpVersion = "1.1"
    max_age: float | None = None
    max_requests: int | None = None
    sharing: Sharing = field(default_factory=Sharing)
    life: Lifetime = field(default_factory=Lifetime)

    @property
    def forwarder(self) -> Proxy | None:
        """The proxy, where it is given the requests themselves instead of a tunnel."""
        is_forwarded = self.proxy is not None and self.trust is None and not self.proxy.is_socks
        return self.proxy if is_forwarded else None

    @classmethod
    def of(cls, **parts: Any) -> Route:
        """The one route with these parts."""
        route = cls(**parts)
        key = tuple(part for part in astuple(route) if not isinstance(part, (Sharing, Lifetime)))
        with _Known.lock:
            return _Known.routes.setdefault(key, route)


class _Known:
    """The routes that are in use; weakly, because a trust may hold a context of the user's."""

    routes: ClassVar[WeakValueDictionary[tuple[Any, ...], Route]] = WeakValueDictionary()
    lock: ClassVar = Lock()

    @classmethod
    def unlock(cls) -> None:
        """In a forked child: whoever held the lock is not there."""
        cls.lock = Lock()


os.register_at_fork(after_in_child=_Known.unlock)


class Routes:
    """The routes of one client, made from its options when they are first needed.

    Args:
        version: In the place of the options' `http_version`.
    """

    __slots__ = ("_by_origin", "_options", "_trusts", "_version")

    def __init__(self, options: NetOptions, version: HttpVersion | None = None) -> None:
        self._options = options
        self._version: HttpVersion = version or options.http_version
        self._by_origin: dict[Origin, Route] = {}
        self._trusts: dict[HttpVersion, Trust] = {}

    def to(self, origin: Origin) -> Route:
        """The route to `origin`.

        Raises:
            ValueError: An option names something that is not there.
        """
        route = self._by_origin.get(origin)
        if route is None:
            route = self._by_origin[origin] = self._route(origin)
        return route

    def _route(self, origin: Origin) -> Route:
        options = self._options
        version = self._version
        if version == "auto" and origin.scheme == "http":
            version = "1.1"  # there is no ALPN without TLS
        proxy = options.proxies.to(origin)
        is_forwarded = proxy is not None and origin.scheme == "http" and not proxy.is_socks
        if version == "2" and is_forwarded:
            raise ValueError(
                f'http_version="2" cannot reach {origin} through the proxy {proxy}: without TLS '
                'it needs a direct connection; take "auto", or name the host in NO_PROXY'
            )
        proxy_trust = None
        if proxy is not None and proxy.scheme == "https":
            own = options.proxy_context
            proxy_trust = self._trusted("1.1") if own is None else _own_trust(own)
        return Route.of(
            origin=origin,
            trust=self._trusted(version) if origin.scheme == "https" else None,
            proxy=proxy,
            proxy_trust=proxy_trust,
            uds=options.uds,
            local_address=options.local_address,
            socket_options=options.socket_options,
            http_version=version,
            max_age=options.max_age,
            max_requests=options.max_requests,
            sharing=Sharing(_IS_SHARED[version]),
        )

    def _trusted(self, version: HttpVersion) -> Trust:
        trust = self._trusts.get(version)
        if trust is None:
            from .tls import Trust  # with `ssl`, which plain HTTP never needs

            trust = self._trusts[version] = Trust.of(self._options, version)
        return trust


# Whether connections carry several calls, where the protocol tells.
_IS_SHARED: dict[HttpVersion, bool | None] = {"auto": None, "1.1": False, "2": True}


def _own_trust(context: SSLContext) -> Trust:
    from .tls import Trust

    return Trust("the proxy's ssl_context", own=context)
