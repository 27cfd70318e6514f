"""Connections for blocking code, shared by all clients and threads of the process.

`aio.py` has the same methods in the same order; a test compares them.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._call import Call, Headers, Span, Timeline
from .._clock import Clock
from .._errors import ExchangeError, Sent
from . import failures
from .failures import BadReplyError
from .http1 import ReplyParser
from .http1_request import LAST_CHUNK, chunk, head_of, joined
from .lobby import Lobby
from .options import DEFAULTS, SYSTEM_CLOCK, NetOptions
from .pool import Counts, Pool
from .refusals import check_forwarded
from .routes import Route, Routes
from .sockets import Opener, SocketConnection

if TYPE_CHECKING:
    from .background import BackgroundConnections, BackgroundResponse

__all__ = ["Connections", "Response", "close_idle", "counts"]


_lobby = Lobby()
os.register_at_fork(after_in_child=_lobby.forget)


def counts() -> Counts:
    """The process's connections: idle, active and opening; and the calls that are queued."""
    return Counts(*map(sum, zip(*(one() for one in _all_counts), strict=True)))


def close_idle() -> None:
    """Close every idle connection of the process."""
    for close in _all_closing:
        close()


# Of each place where threads have connections; HTTP/2's is added once it is loaded.
_all_counts: list[Callable[[], Counts]] = [_lobby.counts]
_all_closing: list[Callable[[], None]] = [_lobby.close_idle]

atexit.register(_lobby.close_idle)


class Connections:
    """A client's way to the connections of this process; safe to use from many threads.

    Clients with equal options share connections. What is idle outlives the client.
    """

    __slots__ = ("_clock", "_is_closed", "_options", "_routes", "_streams")

    def __init__(self, options: NetOptions = DEFAULTS, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._is_closed = False
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
            connection = self._obtain(call, timeline)
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

    def close(self) -> None:
        """Cut this client's streams and refuse further calls; others' are left alone."""
        self._is_closed = True
        if self._streams is not None:
            self._streams.close()
        for connection in _lobby.evict(self):
            _drop(connection)

    def _obtain(self, call: Call, timeline: Timeline) -> SocketConnection:
        self._check_open()
        monotonic = self._clock.monotonic
        started = monotonic()
        route = self._routes.to(call.origin)
        pool, connection, waiter = _lobby.enter(route, started, self)
        if waiter is not None:
            timeout, by = timeline.within(call.timeout.pool, monotonic)
            is_granted = _lobby.wait(pool, waiter, timeout)
            connection, now = waiter.connection, monotonic()
            timeline.pool = Span(started, now)
            if not is_granted:
                self._check_open()
                queued = pool.counts
                error = failures.pool_timeout(
                    call.origin,
                    timeout=timeout or 0.0,
                    waited=now - started,
                    limit=pool.limit,
                    active=queued.active,
                    queued=queued.queued,
                )
                raise failures.late(error, by, stage="pool")
        while connection is not None:
            try:
                connection.owner = self
                self._check_open()
                if connection.is_fit(monotonic()):
                    return connection
            except BaseException:
                _drop(connection)
                raise
            connection.cut()
            connection = _lobby.swap(connection, started)
        return self._open(route, pool, call, timeline)

    def _open(
        self, route: Route, pool: Pool[SocketConnection], call: Call, timeline: Timeline
    ) -> SocketConnection:
        try:
            connection = Opener(
                route, pool, call.timeout.connect, timeline, self._clock.monotonic
            ).open()
        except BaseException:
            _lobby.vacate(pool)
            raise
        connection.owner = self
        _lobby.fill(connection)
        if self._is_closed:
            _drop(connection)
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


class Response:
    """A reply whose body is read piece by piece.

    The connection goes back to the pool the moment the body has ended. A response that is
    dropped before is cut when it is collected, so that its place does not stay taken.
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
        connection: SocketConnection,
        call: Call,
        timeline: Timeline,
        clock: Clock,
        options: NetOptions,
    ) -> None:
        self._connection: SocketConnection | None = connection
        self._parser = ReplyParser(call.method)
        self._call = call
        self._timeline = timeline
        self._clock = clock
        self._options = options

    def read(self) -> bytes:
        """The next bytes of the body as they came; `b""` at its end.

        Raises:
            ExchangeError: The body broke off, or its time ran out.
        """
        parser = self._parser
        while not parser.unread and not parser.is_complete:
            self._advance("more of the reply")
        return parser.take()

    def close(self, *, finished: bool = False) -> None:
        """Be done with the body; what is left of it is cut, so that the server stops.

        Args:
            finished: Only the end of the transfer is left. It is taken in later, at most
                64 KiB and 100 ms of it, so that the connection can be used again.
        """
        connection = self._connection
        if connection is None:
            return
        if not finished:
            self.cut()
            return
        self._connection = None
        now = self._timeline.last_byte = self._clock.monotonic()
        state = connection.drain(self._parser, now)
        if state == "broken":
            _drop(connection)
        else:
            expires = self._parser.expires(now, self._options.idle_expiry)
            _lobby.release(connection, expires, last=state == "free")

    def cut(self) -> None:
        """Drop the body and its connection at once; never blocks, never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            _drop(connection)

    def abandon(self) -> None:
        """Cut for a finalizer, which may run in a thread that holds our lock."""
        connection, self._connection = getattr(self, "_connection", None), None
        if connection is not None:
            _lobby.abandon(connection)

    __del__ = abandon

    def _send(self, head: bytes) -> bool:
        """Write the request; false: closed before the first byte, so another may carry it."""
        connection, timeline = self._connection, self._timeline
        assert connection is not None
        timeline.reused, timeline.carrier = connection.num_exchanges > 0, connection.carrier
        connection.num_exchanges += 1
        started = self._clock.monotonic()
        failure = _write(connection, self._call, head, timeline, self._clock.monotonic)
        timeline.send = Span(started, self._clock.monotonic())
        if failure is not None:
            if failure.sent == "nothing" and timeline.reused and failure.kind == "write":
                return False
            self._read_refusal(failure)
        return True

    def _read_head(self) -> None:
        parser, timeline = self._parser, self._timeline
        while parser.status is None:
            self._advance("the head of the reply")
        self.status = parser.status
        self.reason, self.headers = parser.reason, parser.headers
        self.protocol = timeline.protocol = parser.protocol

    def _read_refusal(self, failure: ExchangeError) -> None:
        """Look for a reply that came before the request was written, such as a 413."""
        connection = self._connection
        assert connection is not None
        try:
            while self._parser.status is None:
                data = connection.receive(0.0)
                if not data:
                    raise failure
                self._parser.feed(data)
        except (OSError, BadReplyError):
            raise failure from None
        self._timeline.first_byte = self._clock.monotonic()
        self._parser.keep_alive = False
        self._finish_if_complete()

    def _advance(self, awaited: str) -> None:
        """Take in what comes next; a failure cuts the connection."""
        connection, parser, timeline = self._connection, self._parser, self._timeline
        origin, reused = self._call.origin, timeline.reused
        if connection is None:
            raise failures.closed_by_us(origin, sent="all", reused=reused)
        if parser.failure is not None:
            self.cut()
            raise failures.broken(origin, parser.failure, reused=reused) from parser.failure
        timeout, by = timeline.within(self._call.timeout.read, self._clock.monotonic)
        try:
            data = connection.receive(timeout)
            if connection.is_cut:
                raise failures.closed_by_us(origin, sent="all", reused=reused)
            if data and timeline.first_byte is None:
                timeline.first_byte = self._clock.monotonic()
            parser.feed(data)
        except TimeoutError:
            self.cut()
            late = failures.read_timeout(
                origin, timeout=timeout or 0.0, awaited=awaited, reused=reused
            )
            raise failures.late(late, by, stage=failures.stage_of(parser.is_begun)) from None
        except BadReplyError:
            return  # what came before it is read first
        except OSError as error:
            self.cut()
            raise failures.unread(origin, error, begun=parser.is_begun, reused=reused) from error
        except BaseException:
            self.cut()
            raise
        self._finish_if_complete()

    def _finish_if_complete(self) -> None:
        if not self._parser.is_complete:
            return
        now = self._timeline.last_byte = self._clock.monotonic()
        connection, self._connection = self._connection, None
        assert connection is not None
        if self._parser.keep_alive:
            _lobby.release(connection, self._parser.expires(now, self._options.idle_expiry))
        else:
            _drop(connection)


def _drop(connection: SocketConnection) -> None:
    connection.cut()
    _lobby.discard(connection)


def _write(
    connection: SocketConnection,
    call: Call,
    head: bytes,
    timeline: Timeline,
    monotonic: Callable[[], float],
) -> ExchangeError | None:
    """Write the whole request; what went wrong."""
    origin, reused = call.origin, connection.num_exchanges > 1
    sent: Sent = "nothing"
    for piece in _pieces(head, call.body):
        rest: bytes | memoryview = piece
        while rest:
            timeout, by = timeline.within(call.timeout.write, monotonic)
            try:
                written = connection.send(rest, timeout)
            except TimeoutError:
                error = failures.write_timeout(
                    origin, timeout=timeout or 0.0, sent=sent, reused=reused
                )
                return failures.late(error, by, stage="send")
            except OSError as failure:
                if connection.is_cut:
                    raise failures.closed_by_us(origin, sent=sent, reused=reused) from None
                return failures.unsent(origin, failure, sent=sent, reused=reused)
            sent = "part"
            rest = memoryview(rest)[written:] if written < len(rest) else b""
    return None


def _pieces(head: bytes, body: Any) -> Iterator[bytes | memoryview]:
    if isinstance(body, (bytes, bytearray)):
        first, rest = joined(head, body)
        yield first
        if rest is not None:
            yield rest
        return
    # The head goes first and alone, so that a connection found closed has cost no body.
    yield head
    for data in body:
        yield chunk(data)
    yield LAST_CHUNK
