"""One asyncio connection that speaks HTTP/1.1: it parses what comes as it comes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from .._call import Call, Origin, Timeline
from .._errors import Sent
from .failures import BadReplyError, bare
from .http1 import ReplyParser
from .http1_request import LAST_CHUNK, chunk, joined
from .limits import free_place
from .link import Keep, Link, Piece, Reply
from .options import DRAIN_BYTES, DRAIN_TIME, DRAIN_WAIT, REAL
from .pool import Pool

__all__ = ["UNREAD_LIMIT", "StreamConnection"]

UNREAD_LIMIT = 256 * 1024
"""Body bytes that wait for their reader before the server is made to wait."""


class StreamConnection(Link):
    """A connection that carries one call after another, by HTTP/1.1.

    Attributes:
        parser: Of the reply that is being read; `None` while idle.
        is_sending: The request is not written in full yet.
        has_written: The kernel has taken some of it.
        is_draining: The rest of the reply is read for its end only.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        origin: Origin,
        pool: Pool[Link],
        keep: Keep,
    ) -> None:
        super().__init__(loop, sock, origin, pool, keep)
        self.parser: ReplyParser | None = None
        self.timeline: Timeline | None = None
        self.monotonic: Callable[[], float] = loop.time
        self._idle_expiry: float | None = None
        self.is_draining = self.is_sending = self.has_written = False
        self._is_read_paused = False
        self._drain_budget = 0
        self._drain_timer: asyncio.TimerHandle | None = None

    def lane(self, owner: object) -> StreamConnection:
        self.owner = owner
        return self

    def evict(self, owner: object) -> None:
        if self.owner is owner:
            self.drop()

    @property
    def sent(self) -> Sent:
        """How much of the request was written, while it is being written."""
        return "part" if self.has_written else "nothing"

    # What the exchange calls.

    async def is_fit(self) -> bool:
        """Whether it can carry a call, after lying idle."""
        if self.is_draining:
            until = self.loop.time() + DRAIN_WAIT
            try:
                while self.is_draining and self.failure is None:
                    await self.wait(max(0.0, until - self.loop.time()))
            except TimeoutError:
                return False
        if self._is_dead():
            return False
        if not self._can_read(0.0):
            return True
        if self._tls is None:
            return False
        # Session tickets make it readable too: let the loop read, and look what it was.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return not self._is_dead()

    def reply_to(self, method: str) -> ReplyParser:
        """What will read the reply to a request of this method."""
        return ReplyParser(method)

    def opening(self, call: Call, head: bytes) -> tuple[Piece, memoryview | None]:
        """What of the request to write first, and what is left of a long body."""
        if isinstance(call.body, (bytes, bytearray)):
            return joined(head, call.body)
        # The head goes first and alone: a connection found closed has cost no body.
        return head, None

    def framed(self, data: bytes) -> bytes:
        """A piece of a body without known length as it is written; `b""`: not at all."""
        return chunk(data)

    def ending(self) -> bytes:
        """What is written at the end of such a body."""
        return LAST_CHUNK

    async def write(self, data: Piece, timeout: float | None) -> None:
        """Write all of `data`, or until a reply comes first.

        Raises:
            TimeoutError: Nothing was taken for `timeout` seconds.
            OSError: The connection broke.
        """
        transport, parser = self._transport, self.parser
        assert transport is not None
        assert parser is not None
        if self._is_dead():
            raise BrokenPipeError
        if self._tls is not None:
            self._tls.encrypt(data)
            data = self._tls.pending()
        transport.write(data)
        if transport.is_closing():  # the first attempt failed; its error comes later, if at all
            if self.has_written:
                self.take_rest()
            if parser.status is None:
                raise BrokenPipeError
            return
        left = transport.get_write_buffer_size()
        self.has_written = self.has_written or left < len(data)
        while self._is_write_paused and parser.status is None:
            if self.failure is not None or self.is_cut:
                raise self.failure if isinstance(self.failure, OSError) else BrokenPipeError
            await self.wait(timeout)
            if transport.get_write_buffer_size() < left:
                self.has_written = True
        self.has_written = True

    def resume(self) -> None:
        """Let the server go on, once its bytes have been taken."""
        if self._is_read_paused and self._transport is not None:
            self._is_read_paused = False
            self._transport.resume_reading()

    def begin(
        self,
        parser: Reply,
        timeline: Timeline,
        monotonic: Callable[[], float],
        idle_expiry: float | None,
    ) -> None:
        """Expect a reply; once it is here the connection is idle, for `idle_expiry` seconds."""
        assert isinstance(parser, ReplyParser)
        self.parser, self.timeline = parser, timeline
        self.monotonic, self._idle_expiry = monotonic, idle_expiry
        self.is_sending, self.has_written = True, False
        self.num_exchanges += 1

    def drain(self) -> None:
        """Read the rest for its end only, within bounds; then the connection is free."""
        if self.is_draining:
            return  # closed twice before the end came: it is given back already
        parser = self.parser
        assert parser is not None
        self._drain_budget = DRAIN_BYTES - parser.drop()
        self.is_draining = True
        self._drain_timer = self.loop.call_later(DRAIN_TIME, self.drop)
        self.resume()
        self._keep_with(parser, last=False)

    def drop_reply(self, parser: Reply) -> None:
        """Drop it if it still carries this reply."""
        if self.parser is parser:
            self.drop()

    def drop(self) -> None:
        if not self.is_cut:
            self.is_cut = True
            self._forget_reply()
            self._stop_timer()
            if self._transport is not None:
                self._transport.abort()
            self.pool.discard(self)
            free_place(self)
            self.notify()

    # What has come.

    def _take(self, data: bytes) -> None:
        parser, timeline = self.parser, self.timeline
        if parser is None or timeline is None:
            self._fail(BadReplyError("protocol", "sent bytes that no request asked for"))
            return
        if timeline.first_byte is None:
            timeline.first_byte = self.monotonic()
        try:
            parser.feed(data)
        except BadReplyError as error:
            self._fail(error)
            return
        if self.is_draining:
            self._drain_budget -= parser.drop()
            if self._drain_budget < 0:
                self.drop()
                return
        if parser.is_complete:
            self._complete(parser)
        elif parser.unread > UNREAD_LIMIT and self._transport is not None:
            self._is_read_paused = True
            self._transport.pause_reading()
        self.notify()

    def _end(self) -> None:
        """The server closed."""
        parser = self.parser
        if parser is not None and self.failure is None:
            try:
                parser.feed(b"")
            except BadReplyError as error:
                self._fail(error)
                return
            self._complete(parser)
        self._note_end()
        self._fail(ConnectionResetError("the server closed"))

    def _fail(self, failure: BadReplyError | OSError) -> None:
        if self.failure is None:
            self.failure = bare(failure)
        if self.is_draining or self in self.pool.idle:
            self.drop()
        self.notify()

    def _complete(self, parser: ReplyParser) -> None:
        """The reply is here in full: its connection is free before anybody reads it."""
        was_draining = self.is_draining
        if self.timeline is not None and not was_draining:
            self.timeline.last_byte = self.monotonic()
        self._forget_reply()
        if not parser.keep_alive or self.is_sending or self.is_worn(REAL()):
            self.drop()
        elif not was_draining:
            self._keep_with(parser)
        elif self in self.pool.idle:
            self.pool.prefer(self)

    def spare(self, idle_expiry: float | None) -> None:
        """Lie idle: the call for which it was opened is none."""
        self._keep(self, self.pool.life.until(REAL(), idle_expiry))

    def _keep_with(self, parser: ReplyParser, *, last: bool = True) -> None:
        now = REAL()
        bound = self.pool.life.bound(now, self._idle_expiry)
        self._keep(self, parser.expires(now, bound), last=last)

    def _forget_reply(self) -> None:
        self.parser = self.timeline = None
        self.is_draining = False
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None
