"""Who gets which connection: decisions without I/O, in constant time per event.

Idle connections are taken last in, first out, so that the rest can expire; calls that wait
are served first in, first out. Whatever becomes free is given to one waiter, and only that
one is woken, so a thousand queued calls cost no more than ten.

Invariants: `len(idle) + len(active) + opening <= limit`, and nobody waits while a connection
is idle or a place is free.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Counts", "Pool", "Pools", "Waiter"]

C = TypeVar("C", bound=Hashable)


class Waiter(Generic[C]):
    """A call that waits for a connection, or for the place to open one.

    Args:
        wake: Called once, when something was granted; must neither block nor raise.
        owner: Whose call it is.

    Attributes:
        is_granted: Something was granted: `connection`, or where that is `None` a place.
    """

    __slots__ = ("connection", "expires", "is_granted", "owner", "wake")

    def __init__(self, wake: Callable[[], object], owner: object = None) -> None:
        self.wake = wake
        self.owner = owner
        self.is_granted = False
        self.connection: C | None = None
        self.expires: float | None = None


class Counts(NamedTuple):
    """How many connections are idle, and active or being opened; how many calls are queued."""

    idle: int = 0
    active: int = 0
    queued: int = 0


class Pool(Generic[C]):
    """The connections to one origin under one set of options.

    Not thread-safe: callers bring their lock, or their loop.

    Attributes:
        expired: Connections that the caller has to close, see `take`.
    """

    __slots__ = ("active", "expired", "idle", "limit", "opening", "waiters")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.idle: OrderedDict[C, float | None] = OrderedDict()  # -> expiry; oldest first
        self.active: set[C] = set()
        self.opening = 0
        self.waiters: OrderedDict[Waiter[C], None] = OrderedDict()
        self.expired: list[C] = []

    @property
    def counts(self) -> Counts:
        return Counts(len(self.idle), len(self.active) + self.opening, len(self.waiters))

    @property
    def is_unused(self) -> bool:
        return not (self.idle or self.active or self.opening or self.waiters or self.expired)

    def take(self, now: float) -> C | None:
        """The connection used last, now active; expired ones are moved to `expired`."""
        while self.idle:
            connection, expires = self.idle.popitem()
            if expires is None or expires > now:
                self.active.add(connection)
                return connection
            self.expired.append(connection)
        return None

    def reserve(self) -> bool:
        """Hold a place for a connection that will be opened, if there is one."""
        if len(self.idle) + len(self.active) + self.opening >= self.limit:
            return False
        self.opening += 1
        return True

    def fill(self, connection: C) -> None:
        """Put a new connection, active, into the place that was held."""
        assert self.opening > 0
        self.opening -= 1
        self.active.add(connection)

    def vacate(self) -> None:
        """Give up a held place: no connection came of it."""
        assert self.opening > 0
        self.opening -= 1
        self._grant_place()

    def swap(self, connection: C, now: float) -> C | None:
        """Drop a dead active connection for an idle one; `None`: its place is held instead."""
        self.active.remove(connection)
        other = self.take(now)
        if other is None:
            self.opening += 1
        return other

    def release(self, connection: C, expires: float | None, *, last: bool = True) -> None:
        """Take an active connection back and give it to whoever waits longest.

        Args:
            expires: Until when it may lie idle, on the clock of `take`; `None`: for ever.
            last: Whether it is the next to be taken; otherwise it is the last resort.
        """
        self.active.remove(connection)
        if self.waiters:
            self.active.add(connection)
            waiter, _ = self.waiters.popitem(last=False)
            waiter.is_granted, waiter.connection, waiter.expires = True, connection, expires
            waiter.wake()
            return
        self.idle[connection] = expires
        if not last:
            self.idle.move_to_end(connection, last=False)

    def prefer(self, connection: C) -> None:
        """Make an idle connection the next to be taken."""
        self.idle.move_to_end(connection)

    def discard(self, connection: C) -> None:
        """Forget a connection, active or idle, that is closed; known ones only count once."""
        if connection in self.active:
            self.active.remove(connection)
            self._grant_place()
        else:
            self.idle.pop(connection, None)

    def wait(self, waiter: Waiter[C]) -> None:
        """Queue behind all who wait."""
        self.waiters[waiter] = None

    def leave(self, waiter: Waiter[C]) -> None:
        """Stop waiting; what was granted meanwhile goes to the next in line."""
        if not waiter.is_granted:
            self.waiters.pop(waiter, None)
            return
        waiter.is_granted = False
        if waiter.connection is None:
            self.vacate()
        elif waiter.connection in self.active:
            self.release(waiter.connection, waiter.expires)

    def expire(self, now: float) -> None:
        """Move idle connections that are too old to `expired`, oldest first."""
        while self.idle:
            connection, expires = next(iter(self.idle.items()))
            if expires is None or expires > now:
                return
            del self.idle[connection]
            self.expired.append(connection)

    def _grant_place(self) -> None:
        if self.waiters:
            self.opening += 1
            waiter, _ = self.waiters.popitem(last=False)
            waiter.is_granted = True
            waiter.wake()


class Pools(Generic[C]):
    """Pools by key: whatever must be equal for two calls to share a connection."""

    __slots__ = ("_next_sweep", "by_key")

    SWEEP = 10.0
    """Seconds between two looks at the pools that nobody calls."""

    def __init__(self) -> None:
        self.by_key: dict[Hashable, Pool[C]] = {}
        self._next_sweep = 0.0

    @property
    def counts(self) -> Counts:
        each = [pool.counts for pool in self.by_key.values()]
        return Counts(*map(sum, zip(*each, strict=True))) if each else Counts()

    def get(self, key: Hashable, limit: int) -> Pool[C]:
        """The pool of `key`, created when there is none."""
        pool = self.by_key.get(key)
        if pool is None:
            pool = self.by_key[key] = Pool(limit)
        return pool

    def sweep(self, now: float) -> list[C]:
        """From time to time: expired connections of all pools, to be closed."""
        if now < self._next_sweep:
            return []
        self._next_sweep = now + self.SWEEP
        return self.expire(now)

    def expire(self, now: float) -> list[C]:
        """Expired connections of all pools, to be closed; unused pools are forgotten."""
        expired: list[C] = []
        for key, pool in list(self.by_key.items()):
            pool.expire(now)
            expired += pool.expired
            pool.expired.clear()
            if pool.is_unused:
                del self.by_key[key]
        return expired
