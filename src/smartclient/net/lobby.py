"""The pools of blocking code behind one lock, which is never held while anything waits."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from . import failures
from .lifetime import Held, holders
from .limits import Place, free_place
from .options import REAL
from .pool import Counts, Pool, Waiter
from .pools import Pools
from .routes import Route
from .sockets import SocketConnection
from .stats import watch

__all__ = ["LOBBY", "Lobby", "Ticket"]


C = TypeVar("C", bound=Held)


class Ticket(Waiter[C]):
    """A thread's place in the queue; `gate` opens when something was granted."""

    __slots__ = ("gate",)

    def __init__(self, owner: object) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        super().__init__(self.gate.release, owner)


class Lobby:
    """Where the threads of a process get connections and leave them."""

    __slots__ = ("_later", "_lock", "_pools")

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._pools: Pools[SocketConnection] = Pools()
        watch(self._pools)
        # What gives something back never waits for the lock: it may be done by a finalizer, which
        # may run in a thread that holds it, and be anybody's, such as the `finally` of an SDK's
        # generator. It is left here, and whoever has the lock does it before all else.
        self._later: deque[Callable[[], object]] = deque()

    def forget(self) -> None:
        """Begin anew in a forked child; the parent's connections go on working."""
        pools = self._pools.by_key.values()
        inherited = [c for pool in pools for c in (*pool.idle, *pool.active)]
        self._reset()
        for connection in inherited:
            connection.forget()

    def counts(self) -> Counts:
        try:
            with self._lock:
                self._settle()
                found = self._pools.counts
        finally:
            self._reclaim()
        return found

    def holders(self, pool: Pool[C]) -> list[str]:
        """Who has held what `pool` has for longest."""
        try:
            with self._lock:
                self._settle()
                active = list(pool.active)
        finally:
            self._reclaim()
        return holders(active)

    def close_idle(self) -> None:
        try:
            with self._lock:
                self._settle()
                idle = self._pools.expire(float("inf"))
            for connection in idle:
                connection.cut()
        finally:
            self._reclaim()

    def enter(
        self, route: Route, now: float, owner: object
    ) -> tuple[Pool[SocketConnection], SocketConnection | None, Ticket[SocketConnection] | None]:
        """An idle connection, or a waiter to `wait` with, or neither: a place to open one."""
        waiter: Ticket[SocketConnection] | None = None
        try:
            with self._lock:
                self._settle()
                old = self._pools.sweep(now)
                pool = self._pools.get(route, life=route.life)
                connection = pool.take(now)
                if connection is not None:
                    connection.owner = owner
                elif not pool.reserve():
                    waiter = Ticket(owner)
                    pool.wait(waiter)
                if pool.expired:
                    old += pool.expired
                    pool.expired.clear()
            for expired in old:
                expired.cut()
        finally:
            self._reclaim()
        return pool, connection, waiter

    def admit(self, place: Place, route: Route, owner: object, limit: int) -> Ticket[Place] | None:
        """Take a place under `owner`'s own limit, or a waiter to `wait` for one with."""
        waiter: Ticket[Place] | None = None
        try:
            with self._lock:
                self._settle()
                if not self._pools.admit(place, route, owner, limit):
                    waiter = Ticket[Place](owner)
                    place.pool.wait(waiter)
        finally:
            self._reclaim()
        return waiter

    def reserve(self, route: Route, spare: int, limit: int) -> Pool[SocketConnection] | None:
        """The pool of `route` with a place held in it, unless `spare` connections are idle.

        It has `limit` places at least.
        """
        try:
            with self._lock:
                self._settle()
                pool = self._pools.get(route, life=route.life)
                pool.allow(limit)
                is_held = len(pool.idle) < spare and pool.reserve()
        finally:
            self._reclaim()
        return pool if is_held else None

    def wait(self, pool: Pool[C], ticket: Ticket[C], timeout: float | None) -> bool:
        """Wait until something is granted; false when it was not, and the place is left."""
        try:
            ticket.gate.acquire(timeout=-1 if timeout is None else timeout)
        except BaseException:
            self._do(partial(pool.leave, ticket))
            raise
        try:
            with self._lock:
                self._settle()  # it may have been granted just as the time ran out
                if not ticket.is_granted:
                    pool.leave(ticket)
        finally:
            self._reclaim()
        return ticket.is_granted

    def swap(self, connection: SocketConnection, now: float) -> SocketConnection | None:
        """Another idle connection for a dead one, or `None`: a place to open one."""
        try:
            with self._lock:
                self._settle()
                is_ours = connection in connection.pool.active
                other = connection.pool.swap(connection, now) if is_ours else None
        finally:
            self._reclaim()
        if not is_ours:
            raise failures.client_closed()  # evicted just now
        return other

    def fill(self, connection: SocketConnection) -> None:
        """Count a connection that was opened in a held place."""
        self._do(partial(connection.pool.fill, connection))

    def vacate(self, pool: Pool[SocketConnection]) -> None:
        """Give up a held place."""
        self._do(pool.vacate)

    def release(
        self, connection: SocketConnection, expires: float | None, *, last: bool = True
    ) -> None:
        """Hand a connection to who waits, or keep it idle."""
        self._do(partial(self._release, connection, expires, last=last))

    def _release(self, connection: SocketConnection, expires: float | None, *, last: bool) -> None:
        connection.owner, connection.idle_since = None, REAL()
        if connection.is_cut:
            connection.pool.discard(connection)
        else:
            connection.pool.release(connection, connection.idle_until(expires), last=last)
        if connection.place is not None:
            free_place(connection)

    def discard(self, connection: SocketConnection) -> None:
        """Forget a connection that was cut."""
        self._do(partial(self._discard, connection))

    def _discard(self, connection: SocketConnection) -> None:
        connection.pool.discard(connection)
        free_place(connection)

    def take(self, place: Place) -> None:
        """Count a place that was waited for."""
        self._do(partial(place.pool.fill, place))

    def free(self, place: Place) -> None:
        """Give up a place with which no connection came."""
        self._do(place.free)

    def evict(self, owner: object) -> None:
        """Send `owner`'s calls away from the queues, and cut its active connections."""
        self._do(partial(self._evict, owner))

    def _do(self, what: Callable[[], object]) -> None:
        """Do it under the lock: now, or let whoever has it do it."""
        self._later.append(what)
        self._reclaim()

    def _reclaim(self) -> None:
        """Do what was left while the lock was held: at the end of whoever holds it, in any way."""
        while self._later and self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()

    def _settle(self) -> None:
        while self._later:
            self._later.popleft()()

    def _evict(self, owner: object) -> None:
        self._pools.send_away(owner)
        for pool in list(self._pools.by_key.values()):
            for connection in [c for c in pool.active if c.owner is owner]:
                connection.cut()
                self._discard(connection)


LOBBY = Lobby()
"""Of this process."""

os.register_at_fork(after_in_child=LOBBY.forget)
