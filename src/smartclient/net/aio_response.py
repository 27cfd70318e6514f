"""A reply that asyncio code reads, over whatever carries it.

`blocking.Response` has the same methods in the same order; a test compares them.
"""

from __future__ import annotations

import contextlib
from typing import Any

from .._call import Call, Headers, Span, Timeline
from .._clock import Clock
from .._errors import ExchangeError
from . import failures
from .failures import BadReplyError
from .link import Lane, Piece
from .options import NetOptions

__all__ = ["WRITE_SIZE", "Response"]

WRITE_SIZE = 256 * 1024
"""Most bytes of a large body that are encrypted or buffered at a time."""


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
        connection: Lane,
        call: Call,
        timeline: Timeline,
        clock: Clock,
        options: NetOptions,
    ) -> None:
        self._connection = connection
        self._parser = connection.reply_to(call.method)
        self._call = call
        self._timeline = timeline
        self._clock = clock
        self._options = options

    @property
    def is_here(self) -> bool:
        """Whether all of the body has come, so that reading it waits for nothing."""
        return self._parser.is_complete

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
            self._note_end()
            self._connection.drain()

    def _note_end(self) -> None:
        """What is of use has come: the rest of the transfer is nobody's time."""
        if self._timeline.last_byte is None:
            self._timeline.last_byte = self._clock.monotonic()

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
        timeline.reused, timeline.carrier = connection.is_reused, connection.carrier
        connection.begin(self._parser, timeline, monotonic, self._options.idle_expiry)
        started = monotonic()
        failure = await self._write_all(head)
        timeline.send = Span(started, monotonic())
        if failure is None:
            return True
        if failure.sent == "nothing" and timeline.reused and failure.kind == "write":
            return False
        try:
            raise failure
        finally:
            del failure  # its traceback has this frame

    async def _write_all(self, head: bytes) -> ExchangeError | None:
        connection, call, parser = self._connection, self._call, self._parser
        first, rest = connection.opening(call, head)
        failure = await self._write(first)
        while rest and failure is None and parser.status is None:
            failure, rest = await self._write(rest[:WRITE_SIZE]), rest[WRITE_SIZE:]
        if failure is None and not isinstance(call.body, (bytes, bytearray)):
            failure = await self._write_pieces(call.body)
        # A reply that came first is read, but its connection cannot be used again.
        connection.is_sending = parser.status is not None or failure is not None
        return None if parser.status is not None else failure

    async def _write_pieces(self, body: Any) -> ExchangeError | None:
        framed = self._connection.framed
        if hasattr(body, "__aiter__"):
            async for data in body:
                failure = await self._write(piece) if (piece := framed(data)) else None
                if failure is not None or self._parser.status is not None:
                    return failure
        else:
            for data in body:
                failure = await self._write(piece) if (piece := framed(data)) else None
                if failure is not None or self._parser.status is not None:
                    return failure
        return await self._write(self._connection.ending())

    async def _write(self, data: Piece) -> ExchangeError | None:
        """Write one piece, unless a reply is here; what went wrong."""
        connection, timeline = self._connection, self._timeline
        if self._parser.status is not None:
            return None  # it came while this piece was made
        origin, reused = self._call.origin, timeline.reused
        if not self._is_mine():  # closed while this piece was made
            raise failures.closed_by_us(origin, sent=connection.sent, reused=reused)
        timeout, by = timeline.within(self._call.timeout.write)
        try:
            await connection.write(data, timeout)
        except TimeoutError:
            late = failures.write_timeout(
                origin, timeout=timeout or 0.0, sent=connection.sent, reused=reused
            )
            return failures.late(late, by, stage="send")
        except OSError as error:
            failures.bare(error)  # it is the connection's
            if connection.is_cut:
                raise failures.closed_by_us(origin, sent=connection.sent, reused=reused) from None
            return failures.unsent(origin, error, sent=connection.sent, reused=reused)
        except BadReplyError as error:
            return failures.broken(origin, failures.bare(error), reused=reused)
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
        connection, timeline = self._connection, self._timeline
        origin, reused = self._call.origin, timeline.reused
        timeout, by = timeline.within(self._call.timeout.read)
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
            raise failures.late(
                failures.read_timeout(
                    origin, timeout=timeout or 0.0, awaited=awaited, reused=reused
                ),
                by,
                stage=failures.stage_of(self._parser.is_begun),
            ) from None
        except BaseException:
            self.cut()
            raise
