"""The way to an origin, and which of its parts two calls must agree on to share a connection."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import astuple

from .._call import Origin
from .options import NetOptions

if TYPE_CHECKING:
    from .tls import Trust

__all__ = ["Route", "Routes"]


class Route(Struct, frozen=True, eq=False, weakref=True, kw_only=True):
    """How an origin is reached; it is the key of a pool.

    There is one object for each way, whoever asks, so it is compared by identity.

    Attributes:
        trust: Whose certificates are accepted; `None` for a plain origin.
        limit: Most connections.
    """

    origin: Origin
    trust: Trust | None
    limit: int

    @classmethod
    def of(cls, **parts: Any) -> Route:
        """The one route with these parts."""
        route = cls(**parts)
        with _Known.lock:
            return _Known.routes.setdefault(astuple(route), route)


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
    """The routes of one client, made from its options when they are first needed."""

    __slots__ = ("_by_origin", "_options", "_trust")

    def __init__(self, options: NetOptions) -> None:
        self._options = options
        self._by_origin: dict[Origin, Route] = {}
        self._trust: Trust | None = None

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
        trust = None
        if origin.scheme == "https":
            trust = self._trust = self._trust or self._trusted()
        return Route.of(origin=origin, trust=trust, limit=self._options.max_connections)

    def _trusted(self) -> Trust:
        from .tls import Trust  # with `ssl`, which plain HTTP never needs

        return Trust.of(self._options)
