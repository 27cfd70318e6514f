"""Connections for blocking code, shared by all clients and threads of the process.

`aio.py` has the same methods in the same order; a test compares them.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from .._call import Call, Span, Timeline
from .._clock import Clock
from . import failures
from .blocking_opening import Opener
from .blocking_response import Response, drop
from .http1_request import head_of
from .lifetime import Held
from .limits import Place, time_left, waited_too_long
from .lobby import LOBBY, Ticket
from .options import DEFAULTS, REAL, SYSTEM_CLOCK, NetOptions
from .pool import Counts, Pool
from .refusals import check_forwarded
from .routes import Route, Routes
from .sockets import SocketConnection

if TYPE_CHECKING:
    from .background import BackgroundConnections, BackgroundResponse

__all__ = ["Connections", "Response", "close_idle", "counts"]


C = TypeVar("C", bound=Held)


def counts() -> Counts:
    """The process's connections: idle, active and opening; and the calls that are queued."""
    return Counts(*map(sum, zip(*(one() for one in _all_counts), strict=True)))


def close_idle() -> None:
    """Close every idle connection of the process."""
    for close in _all_closing:
        close()


# Of each place where threads have connections; HTTP/2's is added once it is loaded.
_all_counts: list[Callable[[], Counts]] = [LOBBY.counts]
_all_closing: list[Callable[[], None]] = [LOBBY.close_idle]

atexit.register(LOBBY.close_idle)


class Connections:
    """A client's way to the connections of this process; safe to use from many threads.

    Clients with equal options share connections. What is idle outlives the client.
    """

    __slots__ = ("_clock", "_is_closed", "_limit", "_options", "_routes", "_streams")

    def __init__(self, options: NetOptions = DEFAULTS, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._is_closed = False
        self._limit = options.own_limit
        self._routes = Routes(options, "1.1")
        self._streams: BackgroundConnections | None = None
        if options.http_version == "2":
            self._streams = _background(options, clock)

    def exchange(self, call: Call, timeline: Timeline) -> Response | BackgroundResponse:
        """Send `call`; the reply's head is read, its body is not.

        A reused connection that turns out closed before a byte was written is replaced by
        another without a trace; nothing else is ever sent twice.

        Raises:
            ExchangeError: No reply came.
            ValueError: Something in `call` that HTTP cannot carry.
        """
        if self._streams is not None:
            return self._streams.exchange(call, timeline)
        forwarder = self._routes.to(call.origin).forwarder
        head = head_of(call, forwarder)
        while True:
            if self._limit is None:
                connection = self._obtain(call, timeline)
            else:
                connection = self._obtain_within(self._limit, call, timeline)
            response = Response(connection, call, timeline, self._clock, self._options)
            try:
                if response._send(head):
                    response._read_head()
                    check_forwarded(call.origin, forwarder, response.status)
                    return response
            except BaseException:
                response.cut()
                raise
            response.cut()

    def prewarm(self, call: Call, number: int) -> int:
        """Open connections for calls like `call` until `number` are idle; how many it took.

        Raises:
            ExchangeError: One could not be opened.
        """
        self._check_open()
        if self._streams is not None:
            return self._streams.prewarm(call, number)
        limit = self._limit or 0
        number = min(number, self._limit or number)
        route, opened = self._routes.to(call.origin), list[SocketConnection]()
        try:
            while (pool := LOBBY.reserve(route, number - len(opened), limit)) is not None:
                opened.append(self._open(route, pool, call, Timeline()))
        finally:
            expires = route.life.until(REAL(), self._options.idle_expiry)
            for connection in opened:
                LOBBY.release(connection, expires)
        return len(opened)

    def close(self) -> None:
        """Cut this client's streams and refuse further calls; others' are left alone."""
        self._is_closed = True
        if self._streams is not None:
            self._streams.close()
        LOBBY.evict(self)

    def _obtain_within(self, limit: int, call: Call, timeline: Timeline) -> SocketConnection:
        """A connection, once this client's own limit has a place for it."""
        self._check_open()
        place, waited = Place(call), 0.0
        waiter = LOBBY.admit(place, self._routes.to(call.origin), self, limit)
        try:
            if waiter is not None:
                waited = self._queue(place.pool, waiter, call, timeline)
                LOBBY.take(place)
            connection = self._obtain(call, timeline, waited)
        except BaseException:
            LOBBY.free(place)
            raise
        connection.place = place
        return connection

    def _obtain(self, call: Call, timeline: Timeline, waited: float = 0.0) -> SocketConnection:
        self._check_open()
        started = REAL()  # connections live in real time
        route = self._routes.to(call.origin)
        pool, connection, waiter = LOBBY.enter(route, started, self)
        if waiter is not None:
            self._queue(pool, waiter, call, timeline, waited)
            connection = waiter.connection
        while connection is not None:
            try:
                connection.owner = self
                connection.held = call.method, call.target, started
                self._check_open()
                if connection.is_fit(now := REAL()):
                    return connection
                if not connection.is_cut:
                    pool.life.ended(now - connection.idle_since, now)
            except BaseException:
                drop(connection)
                raise
            connection.cut()
            connection = LOBBY.swap(connection, now)
        return self._open(route, pool, call, timeline)

    def _queue(
        self, pool: Pool[C], waiter: Ticket[C], call: Call, timeline: Timeline, waited: float = 0.0
    ) -> float:
        """Wait for what `pool` grants; how long that and an earlier wait took."""
        begun, started = self._clock.monotonic(), REAL() - waited
        if waited and timeline.pool is not None:
            begun = timeline.pool.start
        timeout, by = timeline.within(time_left(call.timeout.pool, waited))
        # Closed just before it joined the queue, nobody would send it away from there.
        is_granted = LOBBY.wait(pool, waiter, 0.0 if self._is_closed else timeout)
        timeline.pool = Span(begun, self._clock.monotonic())
        if is_granted:
            return REAL() - started
        self._check_open()
        held = LOBBY.holders(pool)
        raise waited_too_long(pool, call, by, waited=REAL() - started, held=held)

    def _open(
        self, route: Route, pool: Pool[SocketConnection], call: Call, timeline: Timeline
    ) -> SocketConnection:
        try:
            connection = Opener(
                route, pool, call.timeout.connect, timeline, self._clock.monotonic
            ).open()
        except BaseException:
            LOBBY.vacate(pool)
            raise
        connection.owner = self
        connection.held = call.method, call.target, REAL()
        connection.begin_life(self._options)
        LOBBY.fill(connection)
        if self._is_closed:
            drop(connection)
            self._check_open()
        return connection

    def _check_open(self) -> None:
        if self._is_closed:
            raise failures.client_closed()


def _background(options: NetOptions, clock: Clock) -> BackgroundConnections:
    from . import background  # with asyncio, which HTTP/1.1 does not need here

    if background.counts not in _all_counts:
        _all_counts.append(background.counts)
        _all_closing.append(background.close_idle)
    return background.BackgroundConnections(options, clock)
