"""Where the connections of an asyncio loop live, and how they end with it.

A loop ends its started async generators before it closes (`loop.shutdown_asyncgens`, which
`asyncio.run` calls). So each loop's connections belong to one: its `finally` aborts them,
and nothing is left for the garbage collector to warn about.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping

from .limits import free_place
from .link import Link
from .options import REAL
from .pool import Pool
from .pools import Pools
from .routes import Route
from .stats import remember, watch

__all__ = ["Home", "all_homes", "home_of_loop"]


class Home:
    """The connections of one loop."""

    __slots__ = ("_end", "_loop", "_sweeper", "pools")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.pools: Pools[Link] = Pools()
        watch(self.pools, loop.is_closed)
        self._loop = loop
        self._sweeper: asyncio.TimerHandle | None = None
        self._end = self._own()

    async def start(self) -> None:
        """Tie the connections to the loop."""
        await anext(self._end)

    def pool_of(self, route: Route) -> Pool[Link]:
        return self.pools.get(route, route.sharing, route.life)

    def enter(self, route: Route, now: float) -> tuple[Pool[Link], Link | None]:
        """The pool of `route` and, where there is one, an idle connection of it."""
        for expired in self.pools.sweep(now):
            expired.drop()
        pool = self.pool_of(route)
        connection = pool.take(now)
        while pool.expired:
            pool.expired.pop().drop()
        return pool, connection

    def release(
        self,
        connection: Link,
        expires: float | None,
        *,
        last: bool = True,
    ) -> None:
        """Hand a connection to who waits, or keep it idle until `expires`."""
        connection.owner, connection.idle_since = None, REAL()
        connection.pool.release(connection, connection.idle_until(expires), last=last)
        if connection.place is not None:
            free_place(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(Pools.SWEEP, self._sweep)

    def close_idle(self) -> None:
        for connection in self.pools.expire(float("inf")):
            connection.drop()

    def evict(self, owner: object) -> None:
        """Cut `owner`'s active connections and send its queued calls away."""
        self.pools.send_away(owner)
        for pool in list(self.pools.by_key.values()):
            for connection in list(pool.active):
                connection.evict(owner)

    def forget(self) -> None:
        """Let go of what is the parent's, in a forked child, and touch nothing else of it."""
        for pool in self.pools.by_key.values():
            for connection in (*pool.idle, *pool.active):
                connection.forget()

    def _sweep(self) -> None:
        """Close what has expired, though nobody calls any more."""
        self._sweeper = None
        for connection in self.pools.expire(REAL()):
            connection.drop()
        if self.pools.counts.idle:
            self._sweeper = self._loop.call_later(Pools.SWEEP, self._sweep)

    async def _own(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            _homes.pop(self._loop, None)
            if self._sweeper is not None:
                self._sweeper.cancel()
            for pool in list(self.pools.by_key.values()):
                for connection in (*pool.idle, *pool.active):
                    connection.drop()
            remember(self.pools)
            # Transports close their sockets in the loop's next turns.
            await asyncio.sleep(0)
            await asyncio.sleep(0)


_homes: dict[asyncio.AbstractEventLoop, Home] = {}
_inherited: list[Home] = []


def all_homes() -> Mapping[asyncio.AbstractEventLoop, Home]:
    return _homes


async def home_of_loop() -> Home:
    """The home of the running loop, made when there is none."""
    loop = asyncio.get_running_loop()
    home = _homes.get(loop)
    if home is None:
        for closed in [known for known in list(_homes) if known.is_closed()]:
            if (gone := _homes.pop(closed, None)) is not None:  # else another thread found it too
                remember(gone.pools)
        home = _homes[loop] = Home(loop)
        await home.start()
    return home


def _forget_parent() -> None:
    # Kept, not collected: a transport's end would take its socket out of the parent's selector.
    _inherited.extend(_homes.values())
    _homes.clear()
    for home in _inherited:
        home.forget()


os.register_at_fork(after_in_child=_forget_parent)
