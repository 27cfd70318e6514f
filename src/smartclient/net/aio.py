"""Connections for asyncio, shared by all clients on a loop.

`blocking.py` has the same methods in the same order; a test compares them.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

from .._call import Call, Headers, Origin, Span, Timeline
from .._clock import Clock
from .._errors import ExchangeError
from . import failures
from .failures import BadReplyError
from .homes import Home, all_homes, home_of_loop
from .http1 import LAST_CHUNK, ReplyParser, chunk, head_of, joined
from .opening import open_stream
from .options import DEFAULTS, REAL, SYSTEM_CLOCK, NetOptions
from .pool import Counts, Pool, Waiter
from .streams import StreamConnection

__all__ = ["WRITE_SIZE", "AsyncConnections", "Response", "close_idle", "counts"]

WRITE_SIZE = 256 * 1024
"""Most bytes of a large body that are encrypted or buffered at a time."""


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

    __slots__ = ("_clock", "_is_closed", "_options", "_trust")

    def __init__(self, options: NetOptions = DEFAULTS, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._is_closed = False
        self._trust: Any = None  # a `tls.Trust` from the first https call on

    async def exchange(self, call: Call, timeline: Timeline) -> Response:
        """Send `call`; the reply's head is read, its body is not.

        A reused connection that turns out closed before a byte was written is replaced by
        another without a trace; nothing else is ever sent twice. Cancelling cuts.

        Raises:
            ExchangeError: No reply came.
            ValueError: Something in `call` that HTTP cannot carry.
        """
        head = head_of(call)
        while True:
            connection = await self._obtain(call, timeline)
            response = Response(connection, call, timeline, self._clock, self._options)
            try:
                if await response._send(head):
                    await response._read_head()
                    return response
            except BaseException:
                response.cut()
                raise
            response.cut()

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

    async def _obtain(self, call: Call, timeline: Timeline) -> StreamConnection:
        while True:
            home = await home_of_loop()
            pool, connection = await self._enter(home, call, timeline)
            while connection is not None:
                if await self._make_fit(connection):
                    return connection
                if connection not in pool.active:
                    break  # closed meanwhile, and its place was given away
                # Its place is kept: whoever has waited in line does not wait again.
                dead, connection = connection, pool.swap(connection, REAL())
                dead.drop()
            else:
                return await self._open(home, pool, call, timeline)

    async def _enter(
        self, home: Home, call: Call, timeline: Timeline
    ) -> tuple[Pool[StreamConnection], StreamConnection | None]:
        """An idle connection, or `None` and a place to open one; waits for either."""
        self._check_open()
        limit, started = self._options.max_connections, self._clock.monotonic()
        # Connections live in real time; see `REAL`.
        pool, connection = home.enter(self._key(call.origin), limit, REAL())
        if connection is None and not pool.reserve():
            try:
                connection = await self._queue(pool, call)
            finally:
                timeline.pool = Span(started, self._clock.monotonic())
        return pool, connection

    async def _queue(self, pool: Pool[StreamConnection], call: Call) -> StreamConnection | None:
        loop, timeout = asyncio.get_running_loop(), call.timeout.pool
        future = loop.create_future()
        waiter = Waiter[StreamConnection](partial(_resolve, future), self)
        pool.wait(waiter)
        started = loop.time()
        timer = None if timeout is None else loop.call_later(timeout, _resolve, future)
        try:
            await future
        except BaseException:
            pool.leave(waiter)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if waiter.is_granted:
            return waiter.connection
        pool.leave(waiter)
        self._check_open()
        counted = pool.counts
        raise failures.pool_timeout(
            call.origin,
            timeout=timeout or 0.0,
            waited=loop.time() - started,
            limit=pool.limit,
            active=counted.active,
            queued=counted.queued,
        )

    async def _make_fit(self, connection: StreamConnection) -> bool:
        connection.owner = self
        try:
            self._check_open()
            return await connection.is_fit()
        except BaseException:
            connection.drop()
            raise

    async def _open(
        self, home: Home, pool: Pool[StreamConnection], call: Call, timeline: Timeline
    ) -> StreamConnection:
        try:
            connection = await open_stream(
                call.origin,
                pool,
                keep=home.release,
                trust=self._trust if call.origin.scheme == "https" else None,
                timeout=call.timeout.connect,
                timeline=timeline,
                monotonic=self._clock.monotonic,
            )
        except BaseException:
            pool.vacate()
            raise
        connection.owner = self
        pool.fill(connection)
        if self._is_closed:
            connection.drop()
            self._check_open()
        return connection

    def _key(self, origin: Origin) -> tuple[Any, ...]:
        """What must be equal for two calls to share a connection."""
        if origin.scheme == "https" and self._trust is None:
            from .tls import Trust

            self._trust = Trust.of(self._options)
        trust = self._trust if origin.scheme == "https" else None
        return origin, trust, self._options.max_connections

    def _check_open(self) -> None:
        if self._is_closed:
            raise failures.client_closed()


class Response:
    """A reply whose body is read piece by piece.

    The connection goes back to the pool the moment the body has come, read or not. A
    response that is dropped before is cut when it is collected.
    """

    __slots__ = (
        "__weakref__",
        "_call",
        "_clock",
        "_connection",
        "_options",
        "_parser",
        "_timeline",
        "headers",
        "protocol",
        "reason",
        "status",
    )

    status: int
    reason: str
    headers: Headers
    protocol: str

    def __init__(
        self,
        connection: StreamConnection,
        call: Call,
        timeline: Timeline,
        clock: Clock,
        options: NetOptions,
    ) -> None:
        self._connection = connection
        self._parser = ReplyParser(call.method)
        self._call = call
        self._timeline = timeline
        self._clock = clock
        self._options = options

    async def read(self) -> bytes:
        """The next bytes of the body as they came; `b""` at its end.

        Raises:
            ExchangeError: The body broke off, or its time ran out.
        """
        parser = self._parser
        while not parser.unread and not parser.is_complete:
            await self._advance("more of the reply")
        data = parser.take()
        if self._is_mine():
            self._connection.resume()
        return data

    async def close(self, *, finished: bool = False) -> None:
        """Be done with the body; what is left of it is cut, so that the server stops.

        Args:
            finished: Only the end of the transfer is left. It is taken in meanwhile, at
                most 64 KiB and 100 ms of it, so that the connection can be used again.
        """
        if not finished:
            self.cut()
        elif self._is_mine():
            self._timeline.last_byte = self._clock.monotonic()
            self._connection.drain()

    def cut(self) -> None:
        """Drop the body and its connection at once; never blocks, never raises."""
        if self._is_mine():
            self._connection.drop()

    def abandon(self) -> None:
        """Cut for a finalizer, which may run in any thread, or when the loop is closed."""
        connection = getattr(self, "_connection", None)
        if connection is not None and self._is_mine() and not connection.is_cut:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and its sockets too
                connection.loop.call_soon_threadsafe(connection.drop_reply, self._parser)

    __del__ = abandon

    def _is_mine(self) -> bool:
        """Whether the connection still carries this reply."""
        return self._connection.parser is self._parser

    async def _send(self, head: bytes) -> bool:
        """Write the request; false: closed before the first byte, so another may carry it."""
        connection, timeline, monotonic = self._connection, self._timeline, self._clock.monotonic
        timeline.reused = connection.num_exchanges > 0
        connection.begin(self._parser, timeline, monotonic, self._options.idle_expiry)
        started = monotonic()
        failure = await self._write_all(head, self._call.body)
        timeline.send = Span(started, monotonic())
        if failure is None:
            return True
        if failure.sent == "nothing" and timeline.reused and failure.kind == "write":
            return False
        raise failure

    async def _write_all(self, head: bytes, body: Any) -> ExchangeError | None:
        if isinstance(body, (bytes, bytearray)):
            first, rest = joined(head, body)
            failure = await self._write(first)
            while rest and failure is None and self._parser.status is None:
                failure, rest = await self._write(rest[:WRITE_SIZE]), rest[WRITE_SIZE:]
        else:
            # The head goes first and alone: a connection found closed has cost no body.
            failure = await self._write(head)
            if failure is None:
                failure = await self._write_chunks(body)
        # A reply that came first is read, but its connection cannot be used again.
        self._connection.is_sending = self._parser.status is not None
        return None if self._parser.status is not None else failure

    async def _write_chunks(self, body: Any) -> ExchangeError | None:
        if hasattr(body, "__aiter__"):
            async for data in body:
                failure = await self._write(chunk(data))
                if failure is not None or self._parser.status is not None:
                    return failure
        else:
            for data in body:
                failure = await self._write(chunk(data))
                if failure is not None or self._parser.status is not None:
                    return failure
        return await self._write(LAST_CHUNK)

    async def _write(self, data: bytes | memoryview) -> ExchangeError | None:
        """Write one piece; what went wrong, unless it was our own patience."""
        if not data:
            return None
        connection, timeout = self._connection, self._call.timeout.write
        origin, reused = self._call.origin, self._timeline.reused
        try:
            await connection.write(data, timeout)
        except TimeoutError:
            raise failures.write_timeout(
                origin, timeout=timeout or 0.0, sent=connection.sent, reused=reused
            ) from None
        except OSError as error:
            if connection.is_cut:
                raise failures.closed_by_us(origin, sent=connection.sent, reused=reused) from None
            return failures.unsent(origin, error, sent=connection.sent, reused=reused)
        return None

    async def _read_head(self) -> None:
        parser, timeline = self._parser, self._timeline
        while parser.status is None:
            await self._advance("the head of the reply")
        self.status = parser.status
        self.reason, self.headers = parser.reason, parser.headers
        self.protocol = timeline.protocol = parser.protocol

    async def _advance(self, awaited: str) -> None:
        """Wait for what comes next; a failure cuts the connection."""
        connection, timeout = self._connection, self._call.timeout.read
        origin, reused = self._call.origin, self._timeline.reused
        failure = connection.failure
        try:
            if not self._is_mine():
                raise failures.closed_by_us(origin, sent="all", reused=reused)
            if isinstance(failure, BadReplyError):
                raise failures.broken(origin, failure, reused=reused) from failure
            if failure is not None:
                begun = self._parser.is_begun
                raise failures.unread(origin, failure, begun=begun, reused=reused) from failure
            await connection.wait(timeout)
        except TimeoutError:
            self.cut()
            raise failures.read_timeout(
                origin, timeout=timeout or 0.0, awaited=awaited, reused=reused
            ) from None
        except BaseException:
            self.cut()
            raise


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
