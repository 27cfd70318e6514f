"""The pools of a process's threads, or of one loop, by the way that their connections go."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from .lifetime import Lifetime
from .pool import Counts, Pool, Sharing, Tally

__all__ = ["Pools"]

C = TypeVar("C", bound=Hashable)


class Pools(Generic[C]):
    """Pools by key: whatever must be equal for two calls to share a connection."""

    __slots__ = ("_next_sweep", "by_key", "tally")

    SWEEP = 10.0
    """Seconds between two looks at the pools that nobody calls."""

    def __init__(self) -> None:
        self.by_key: dict[Hashable, Pool[C]] = {}
        self._next_sweep = 0.0
        self.tally = Tally()

    @property
    def counts(self) -> Counts:
        each = [pool.counts for pool in self.by_key.values()]
        return Counts(*map(sum, zip(*each, strict=True))) if each else Counts()

    def get(
        self,
        key: Hashable,
        limit: int,
        sharing: Sharing | None = None,
        life: Lifetime | None = None,
    ) -> Pool[C]:
        """The pool of `key`, created when there is none."""
        pool = self.by_key.get(key)
        if pool is None:
            pool = self.by_key[key] = Pool(limit, sharing, life, self.tally)
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
