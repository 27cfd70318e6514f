"""The pools of a process's threads, or of one loop, by the way that their connections go."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from .lifetime import Lifetime
from .limits import Limiter, Place
from .options import MOST_CONNECTIONS
from .pool import Counts, Pool, Sharing, Tally

__all__ = ["Pools"]

C = TypeVar("C", bound=Hashable)


class Pools(Generic[C]):
    """Pools by key: whatever must be equal for two calls to share a connection.

    Attributes:
        limiters: By client and key, of the clients that have a limit of their own.
    """

    __slots__ = ("_next_sweep", "by_key", "limiters", "tally")

    SWEEP = 10.0
    """Seconds between two looks at the pools that nobody calls."""

    def __init__(self) -> None:
        self.by_key: dict[Hashable, Pool[C]] = {}
        self.limiters: dict[tuple[object, Hashable], Limiter] = {}
        self._next_sweep = 0.0
        self.tally = Tally()

    @property
    def counts(self) -> Counts:
        each = [pool.counts for pool in self.by_key.values()]
        # A place is no connection: only who waits for one is counted beside them.
        each += [Counts(queued=len(limiter.waiters)) for limiter in self.limiters.values()]
        return Counts(*map(sum, zip(*each, strict=True))) if each else Counts()

    def get(
        self, key: Hashable, sharing: Sharing | None = None, life: Lifetime | None = None
    ) -> Pool[C]:
        """The pool of `key`, created when there is none."""
        pool = self.by_key.get(key)
        if pool is None:
            pool = self.by_key[key] = Pool(MOST_CONNECTIONS, sharing, life, self.tally)
        return pool

    def admit(self, place: Place, key: Hashable, owner: object, limit: int) -> bool:
        """Take a place under `owner`'s own limit; false: there is none, so wait in its pool."""
        pool = self.by_key.get(key)
        if pool is not None:  # otherwise this is the first call, which needs no more
            pool.allow(limit)
        limiter = self.limiters.get((owner, key))
        if limiter is None:
            limiter = self.limiters[owner, key] = Limiter(limit)
        place.pool = limiter
        if not limiter.reserve():
            return False
        limiter.fill(place)
        return True

    def send_away(self, owner: object) -> None:
        """Take `owner`'s calls out of all queues, and wake them: they are granted nothing."""
        own = [key for key in self.limiters if key[0] is owner]
        for limiter in map(self.limiters.pop, own):
            limiter.send_away(owner)
        for pool in self.by_key.values():
            pool.send_away(owner)

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
        for own in [key for key, limiter in self.limiters.items() if limiter.is_unused]:
            del self.limiters[own]
        return expired
