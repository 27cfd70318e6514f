"""Connections for blocking code, shared by all clients and threads of the process.

`aio.py` has the same methods in the same order; a test compares them.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from typing import Any

from .._call import Call, Headers, Origin, Span, Timeline
from .._clock import Clock
from .._errors import ExchangeError, Sent
from . import failures
from .failures import BadReplyError
from .http1 import LAST_CHUNK, ReplyParser, chunk, head_of, joined
from .lobby import Lobby
from .options import DEFAULTS, REAL, SYSTEM_CLOCK, NetOptions
from .pool import Counts, Pool
from .sockets import SocketConnection, connect

__all__ = ["Connections", "Response", "close_idle", "counts"]


_lobby = Lobby()
os.register_at_fork(after_in_child=_lobby.forget)


def counts() -> Counts:
    """The process's connections: idle, active and opening; and the calls that are queued."""
    return _lobby.counts()


def close_idle() -> None:
    """Close every idle connection of the process."""
    _lobby.close_idle()


atexit.register(close_idle)


class Connections:
    """A client's way to the connections of this process; safe to use from many threads.

    Clients with equal options share connections. What is idle outlives the client.
    """

    __slots__ = ("_clock", "_is_closed", "_options", "_trust")

    def __init__(self, options: NetOptions = DEFAULTS, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options = options
        self._clock = clock
        self._is_closed = False
        self._trust: Any = None  # a `tls.Trust` from the first https call on

    def exchange(self, call: Call, timeline: Timeline) -> Response:
        """Send `call`; the reply's head is read, its body is not.

        A reused connection that turns out closed before a byte was written is replaced by
        another without a trace; nothing else is ever sent twice.

        Raises:
            ExchangeError: No reply came.
            ValueError: Something in `call` that HTTP cannot carry.
        """
        head = head_of(call)
        while True:
            connection = self._obtain(call, timeline)
            response = Response(connection, call, timeline, self._clock, self._options)
            try:
                if response._send(head):
                    response._read_head()
                    return response
            except BaseException:
                response.cut()
                raise
            response.cut()

    def close(self) -> None:
        """Cut this client's streams and refuse further calls; others' are left alone."""
        self._is_closed = True
        for connection in _lobby.evict(self):
            _drop(connection)

    def _obtain(self, call: Call, timeline: Timeline) -> SocketConnection:
        self._check_open()
        # Connections live in real time; see `REAL`.
        options, begun, started = self._options, self._clock.monotonic(), REAL()
        key = self._key(call.origin)
        pool, connection, waiter = _lobby.enter(key, options.max_connections, started, self)
        if waiter is not None:
            timeout = call.timeout.pool
            is_granted = _lobby.wait(pool, waiter, timeout)
            connection = waiter.connection
            timeline.pool = Span(begun, self._clock.monotonic())
            if not is_granted:
                self._check_open()
                queued = pool.counts
                raise failures.pool_timeout(
                    call.origin,
                    timeout=timeout or 0.0,
                    waited=REAL() - started,
                    limit=pool.limit,
                    active=queued.active,
                    queued=queued.queued,
                )
        while connection is not None:
            try:
                connection.owner = self
                self._check_open()
                if connection.is_fit(REAL()):
                    return connection
            except BaseException:
                _drop(connection)
                raise
            connection.cut()
            connection = _lobby.swap(connection, started)
        return self._open(pool, call, timeline)

    def _open(
        self, pool: Pool[SocketConnection], call: Call, timeline: Timeline
    ) -> SocketConnection:
        try:
            connection = connect(
                call.origin,
                pool,
                trust=self._trust,
                timeout=call.timeout.connect,
                timeline=timeline,
                monotonic=self._clock.monotonic,
            )
        except BaseException:
            _lobby.vacate(pool)
            raise
        connection.owner = self
        _lobby.fill(connection)
        if self._is_closed:
            _drop(connection)
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
        self._timeline.last_byte, now = self._clock.monotonic(), REAL()
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
        timeline.reused = connection.num_exchanges > 0
        connection.num_exchanges += 1
        started = self._clock.monotonic()
        failure = _write(connection, self._call, head)
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
        timeout = self._call.timeout.read
        try:
            data = connection.receive(timeout)
            if connection.is_cut:
                raise failures.closed_by_us(origin, sent="all", reused=reused)
            if data and timeline.first_byte is None:
                timeline.first_byte = self._clock.monotonic()
            parser.feed(data)
        except TimeoutError:
            self.cut()
            raise failures.read_timeout(
                origin, timeout=timeout or 0.0, awaited=awaited, reused=reused
            ) from None
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
        self._timeline.last_byte = self._clock.monotonic()
        connection, self._connection = self._connection, None
        assert connection is not None
        if self._parser.keep_alive:
            _lobby.release(connection, self._parser.expires(REAL(), self._options.idle_expiry))
        else:
            _drop(connection)


def _drop(connection: SocketConnection) -> None:
    connection.cut()
    _lobby.discard(connection)


def _write(connection: SocketConnection, call: Call, head: bytes) -> ExchangeError | None:
    """Write the whole request; what went wrong."""
    origin, reused = call.origin, connection.num_exchanges > 1
    sent: Sent = "nothing"
    for piece in _pieces(head, call.body):
        rest: bytes | memoryview = piece
        while rest:
            try:
                written = connection.send(rest, call.timeout.write)
            except TimeoutError:
                timeout = call.timeout.write or 0.0
                return failures.write_timeout(origin, timeout=timeout, sent=sent, reused=reused)
            except OSError as error:
                if connection.is_cut:
                    raise failures.closed_by_us(origin, sent=sent, reused=reused) from None
                return failures.unsent(origin, error, sent=sent, reused=reused)
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
