"""A reply on one of a thread's connections, while its body is read.

`aio_response.py` has the same methods in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._call import Call, Headers, Span, Timeline
from .._clock import Clock
from .._errors import ExchangeError, Sent
from . import failures
from .failures import BadReplyError
from .http1 import ReplyParser
from .http1_request import LAST_CHUNK, chunk, joined
from .lobby import LOBBY
from .options import REAL, NetOptions
from .sockets import SocketConnection

__all__ = ["Response", "drop"]

_LOOK = 0.05
"""Seconds between two looks for a reply, while the server takes nothing of a request."""


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
        if state == "broken" or connection.is_worn(now):
            drop(connection)
        else:
            LOBBY.release(connection, self._expires(connection, now), last=state == "free")

    def cut(self) -> None:
        """Drop the body and its connection at once; never blocks, never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            drop(connection)

    def abandon(self) -> None:
        """Cut for a finalizer."""
        connection, self._connection = getattr(self, "_connection", None), None
        if connection is not None:
            drop(connection)

    __del__ = abandon

    def _send(self, head: bytes) -> bool:
        """Write the request; false: closed before the first byte, so another may carry it."""
        connection, timeline = self._connection, self._timeline
        assert connection is not None
        timeline.reused, timeline.carrier = connection.is_reused, connection.carrier
        connection.num_exchanges += 1
        started = self._clock.monotonic()
        failure = _write(connection, self._call, head, timeline, self._is_refused)
        timeline.send = Span(started, self._clock.monotonic())
        if failure is not None:
            if failure.sent == "nothing" and timeline.reused and failure.kind == "write":
                return False
            if not self._is_refused():
                try:
                    raise failure
                finally:
                    del failure  # its traceback has this frame
        return True

    def _read_head(self) -> None:
        parser, timeline = self._parser, self._timeline
        while parser.status is None:
            self._advance("the head of the reply")
        self.status = parser.status
        self.reason, self.headers = parser.reason, parser.headers
        self.protocol = timeline.protocol = parser.protocol

    def _is_refused(self) -> bool:
        """Whether a reply came before the request was written, such as a 413."""
        connection = self._connection
        assert connection is not None
        try:
            while self._parser.status is None:
                data = connection.receive(0.0)
                if not data:
                    return False
                self._parser.feed(data)
        except BadReplyError:
            return True  # told when the reply is read
        except OSError:
            return False
        self._timeline.first_byte = self._clock.monotonic()
        self._parser.keep_alive = False
        self._finish_if_complete()
        return True

    def _advance(self, awaited: str) -> None:
        """Take in what comes next; a failure cuts the connection."""
        connection, parser, timeline = self._connection, self._parser, self._timeline
        origin, reused = self._call.origin, timeline.reused
        if connection is None:
            raise failures.closed_by_us(origin, sent="all", reused=reused)
        if parser.failure is not None:
            self.cut()
            raise failures.broken(origin, parser.failure, reused=reused) from parser.failure
        timeout, by = timeline.within(self._call.timeout.read)
        try:
            data = connection.receive(timeout)
            if connection.is_cut:
                raise failures.closed_by_us(origin, sent="all", reused=reused)
            if data and timeline.first_byte is None:
                timeline.first_byte = self._clock.monotonic()
            parser.feed(data)
        except TimeoutError:
            self.cut()
            raise failures.late(
                failures.read_timeout(
                    origin, timeout=timeout or 0.0, awaited=awaited, reused=reused
                ),
                by,
                stage=failures.stage_of(parser.is_begun),
            ) from None
        except BadReplyError as error:
            failures.bare(error)  # the parser has it, and we the parser
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
        now = REAL()
        if self._parser.keep_alive and not connection.is_worn(now):
            LOBBY.release(connection, self._expires(connection, now))
        else:
            drop(connection)

    def _expires(self, connection: SocketConnection, now: float) -> float | None:
        bound = connection.pool.life.bound(now, self._options.idle_expiry)
        return self._parser.expires(now, bound)


def drop(connection: SocketConnection) -> None:
    """Close it at once, anywhere: also in a finalizer, in a thread that holds our lock."""
    connection.cut()
    LOBBY.discard(connection)


def _write(
    connection: SocketConnection,
    call: Call,
    head: bytes,
    timeline: Timeline,
    has_reply: Callable[[], bool],
) -> ExchangeError | None:
    """Write the request, whole or until a reply comes first; what went wrong."""
    origin, reused = call.origin, timeline.reused
    sent: Sent = "nothing"
    for piece in _pieces(head, call.body):
        rest: bytes | memoryview = piece
        waited = 0.0
        while rest:
            timeout, by = timeline.within(call.timeout.write)
            left = _LOOK if timeout is None else min(_LOOK, timeout if by else timeout - waited)
            try:
                written = connection.send(rest, left)
            except TimeoutError:
                if has_reply():
                    return None
                waited += left
                if timeout is None or (timeout > left if by else timeout > waited):
                    continue
                error = failures.write_timeout(
                    origin, timeout=timeout or 0.0, sent=sent, reused=reused
                )
                return failures.late(error, by, stage="send")
            except OSError as failure:
                if connection.is_cut:
                    raise failures.closed_by_us(origin, sent=sent, reused=reused) from None
                return failures.unsent(origin, failure, sent=sent, reused=reused)
            sent, waited = "part", 0.0
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
