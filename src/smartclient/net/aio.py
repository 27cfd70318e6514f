"""Connections for asyncio, shared by all clients on a loop.

`blocking.py` has the same methods in the same order; a test compares them.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TypeVar

from .._call import Call, Span, Timeline
from .._clock import Clock
from .._errors import ExchangeError
from . import failures
from .aio_response import Response
from .homes import Home, all_homes, home_of_loop
from .http1_request import head_of
from .lifetime import Held, holders
from .limits import Place, time_left, waited_too_long
from .link import Lane, Link
from .opening import open_stream
from .options import DEFAULTS, REAL, SYSTEM_CLOCK, NetOptions
from .pool import Counts, Pool, Waiter
from .refusals import check_forwarded
from .routes import Route, Routes
from .waiting import settle

__all__ = ["MOST_REFUSALS", "AsyncConnections", "close_idle", "counts"]

C = TypeVar("C", bound=Held)

MOST_REFUSALS = 3
"""How often a request that was not processed is sent again at once."""


def counts() -> Counts:
    """The running loop's connections: idle, active and opening; and the calls queued."""
    home = all_homes().get(asyncio.get_running_loop())
    return Counts() if home is None else home.pools.counts


def close_idle() -> None:
    """Close every idle connection of the running loop."""
    home = all_homes().get(asyncio.get_running_loop())
    if home is not None:
        home.close_idle()


class AsyncConnections:
    """A client's way to the connections of whichever loop it is used on.

    Clients with equal options share connections. What is idle outlives the client, not the
    loop. One client may serve several loops, one after another or in several threads.
    """

    __slots__ = ("_clock", "_is_closed", "_limit", "_options", "_routes")

    def __init__(self, options: NetOptions = DEFAULTS, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._is_closed = False
        self._limit = options.own_limit
        self._routes = Routes(options)

    async def exchange(self, call: Call, timeline: Timeline) -> Response:
        """Send `call`; the reply's head is read, its body is not.

        A reused connection that turns out closed before a byte was written is replaced by
        another without a trace, and a request that HTTP/2 says was not processed is sent
        again, at most three times; nothing else is ever sent twice. Cancelling cuts.

        Raises:
            ExchangeError: No reply came.
            ValueError: Something in `call` that HTTP cannot carry.
        """
        forwarder = self._routes.to(call.origin).forwarder
        head = head_of(call, forwarder)
        refusals = 0
        while True:
            if self._limit is None:
                connection = await self._obtain(call, timeline)
            else:
                connection = await self._obtain_within(self._limit, call, timeline)
            response = Response(connection, call, timeline, self._clock, self._options)
            try:
                if await response._send(head):
                    await response._read_head()
                    check_forwarded(call.origin, forwarder, response.status)
                    return response
            except ExchangeError as error:
                response.cut()
                refusals += 1
                is_refused = error.kind == "refused" and call.is_repeatable
                if not is_refused or refusals > MOST_REFUSALS:
                    raise
            except BaseException:
                response.cut()
                raise
            else:
                response.cut()

    async def prewarm(self, call: Call, number: int) -> int:
        """Open connections for calls like `call` until `number` are idle; how many it took.

        One that is shared (HTTP/2) is enough.

        Raises:
            ExchangeError: One could not be opened.
        """
        self._check_open()
        home, route = await home_of_loop(), self._routes.to(call.origin)
        pool = home.pool_of(route)
        pool.allow(self._limit or 0)
        number = min(number, self._limit or number)
        opened: list[Lane] = []
        try:
            while _lacks(pool, number - len(opened)) and pool.reserve():
                opened.append(await self._open(home, route, pool, call, Timeline()))
        finally:
            for lane in opened:
                lane.spare(self._options.idle_expiry)
        return len(opened)

    async def close(self) -> None:
        """Cut this client's streams and refuse further calls; others' are left alone."""
        self._is_closed = True
        here = asyncio.get_running_loop()
        for loop, home in list(all_homes().items()):
            if loop is here:
                home.evict(self)
            else:
                with contextlib.suppress(RuntimeError):  # that loop is closed
                    loop.call_soon_threadsafe(home.evict, self)

    async def _obtain_within(self, limit: int, call: Call, timeline: Timeline) -> Lane:
        """What carries a call, once this client's own limit has a place for it."""
        self._check_open()
        home, place, waited = await home_of_loop(), Place(call), 0.0
        if not home.pools.admit(place, self._routes.to(call.origin), self, limit):
            waiting = REAL()
            await self._queue(place.pool, call, timeline)
            waited = REAL() - waiting
            place.pool.fill(place)
        try:
            lane = await self._obtain(call, timeline, waited)
        except BaseException:
            place.free()
            raise
        lane.place = place
        return lane

    async def _obtain(self, call: Call, timeline: Timeline, waited: float = 0.0) -> Lane:
        while True:
            home, route = await home_of_loop(), self._routes.to(call.origin)
            pool, connection = await self._enter(home, route, call, timeline, waited)
            held = call.method, call.target, REAL()
            while connection is not None:
                if (lane := await self._fit_lane(connection, held)) is not None:
                    return lane
                if connection not in pool.active:
                    break  # closed meanwhile, and its place was given away
                # Its place is kept: whoever has waited in line does not wait again.
                unfit, connection = connection, pool.swap(connection, REAL())
                if unfit not in pool.active:  # where it is, others' calls are on it
                    unfit.drop()
            else:
                return await self._open(home, route, pool, call, timeline)

    async def _enter(
        self, home: Home, route: Route, call: Call, timeline: Timeline, waited: float
    ) -> tuple[Pool[Link], Link | None]:
        """An idle connection, or `None` and a place to open one; waits for either."""
        self._check_open()
        pool, connection = home.enter(route, REAL())  # connections live in real time
        if connection is None and not pool.reserve():
            connection = await self._queue(pool, call, timeline, waited)
        return pool, connection

    async def _queue(
        self, pool: Pool[C], call: Call, timeline: Timeline, waited: float = 0.0
    ) -> C | None:
        """Wait for what `pool` grants; some seconds may have been waited before."""
        loop, begun = asyncio.get_running_loop(), self._clock.monotonic()
        if waited and timeline.pool is not None:
            begun = timeline.pool.start
        timeout, by = timeline.within(time_left(call.timeout.pool, waited))
        future = loop.create_future()
        waiter = Waiter[C](partial(settle, future), self)
        pool.wait(waiter)
        started = loop.time() - waited
        timer = None if timeout is None else loop.call_later(timeout, settle, future)
        try:
            await future
        except BaseException:
            pool.leave(waiter)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            timeline.pool = Span(begun, self._clock.monotonic())
        if waiter.is_granted:
            return waiter.connection
        pool.leave(waiter)
        self._check_open()
        held = holders(pool.active)
        raise waited_too_long(pool, call, by, waited=loop.time() - started, held=held)

    async def _fit_lane(self, connection: Link, held: tuple[str, str, float]) -> Lane | None:
        """What carries a call on `connection`; `None`: it cannot carry another one."""
        lane = connection.lane(self)
        connection.held = held
        try:
            self._check_open()
            return lane if await lane.is_fit() else None
        except BaseException:
            lane.drop()
            raise

    async def _open(
        self,
        home: Home,
        route: Route,
        pool: Pool[Link],
        call: Call,
        timeline: Timeline,
    ) -> Lane:
        try:
            connection = await open_stream(
                route,
                pool,
                keep=home.release,
                timeout=call.timeout.connect,
                timeline=timeline,
                monotonic=self._clock.monotonic,
            )
        except BaseException:
            pool.vacate()
            raise
        connection.begin_life(self._options)
        connection.held = call.method, call.target, REAL()
        pool.fill(connection, connection.room)
        lane = connection.lane(self)
        if self._is_closed:
            lane.drop()
            self._check_open()
        return lane

    def _check_open(self) -> None:
        if self._is_closed:
            raise failures.client_closed()


def _lacks(pool: Pool[Link], number: int) -> bool:
    """Whether fewer than `number` connections are idle; one that is shared is enough."""
    if pool.sharing.is_shared and (pool.idle or pool.roomy):
        return False
    return len(pool.idle) < number
