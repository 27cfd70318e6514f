"""One call on an asyncio connection that carries many, by HTTP/2.

It has the face of a connection, so that whoever exchanges need not know how many share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._call import Call, Timeline
from .._errors import Sent
from .failures import BadReplyError
from .http2_reply import StreamReply
from .http2_request import Fields, fields_of
from .limits import Place, free_place
from .link import Piece, Reply
from .options import DRAIN_BYTES, DRAIN_TIME
from .waiting import Awaited

if TYPE_CHECKING:
    from .multiplex import Multiplex

__all__ = ["StreamLane"]

_FIRST_PIECE = 256 * 1024


class StreamLane(Awaited):
    """One call on a connection of streams.

    Attributes:
        owner: Whose call it is.
        place: What it holds of its client's own limit.
        parser: Its reply while that comes; `None` before and after.
        is_sending: The request is not written in full yet.
        has_written: Some of it was.
        is_draining: The rest of the reply is read for its end only.
    """

    def __init__(self, link: Multiplex, owner: object) -> None:
        super().__init__(link.loop)
        self.link, self.owner = link, owner
        self.place: Place | None = None
        self.parser: StreamReply | None = None
        self.is_reused = link.is_reused
        self.is_cut = self.is_draining = self.has_written = False
        self.is_sending = True
        self.monotonic: Callable[[], float] = link.loop.time
        self.idle_expiry: float | None = 0.0
        self._reply: StreamReply | None = None
        self._timeline: Timeline | None = None
        self._fields: Fields | None = None
        self._left: int | None = None  # of a body whose length is known
        self._is_over = False
        self._drain_budget = 0
        self._drain_timer: asyncio.TimerHandle | None = None
        link.lanes.add(self)

    @property
    def failure(self) -> BadReplyError | OSError | None:
        own = self._reply.failure if self._reply is not None else None
        return own or self.link.failure

    @property
    def carrier(self) -> tuple[Any, Any]:
        return self.link.carrier

    @property
    def sent(self) -> Sent:
        """How much of the request was written, while it is being written."""
        return "part" if self.has_written else "nothing"

    async def is_fit(self) -> bool:
        if await self.link.is_fit():
            return True
        self._is_over = True  # its room is given back by whoever asked
        self.link.lanes.discard(self)
        return False

    def spare(self, idle_expiry: float | None) -> None:
        """Give the room back: the call for which it was taken is none."""
        self.idle_expiry = idle_expiry
        self._leave()

    # The request.

    def reply_to(self, method: str) -> StreamReply:
        """What will hold the reply to a request of this method."""
        self._reply = StreamReply(method)
        return self._reply

    def begin(
        self,
        parser: Reply,
        timeline: Timeline,
        monotonic: Callable[[], float],
        idle_expiry: float | None,
    ) -> None:
        """Expect a reply."""
        assert isinstance(parser, StreamReply)
        self.parser, self._timeline = parser, timeline
        self.monotonic, self.idle_expiry = monotonic, idle_expiry

    def opening(self, call: Call, head: bytes) -> tuple[Piece, memoryview | None]:
        """What of the body goes with the head, and what is left of a long one."""
        self._fields = fields_of(call)
        if not isinstance(call.body, (bytes, bytearray)):
            return b"", None
        self._left, body = len(call.body), memoryview(call.body)
        return body[:_FIRST_PIECE], body[_FIRST_PIECE:]

    def framed(self, data: bytes) -> bytes:
        """A piece of a body without known length as it is written."""
        return data

    def ending(self) -> bytes:
        """What is written at the end of such a body."""
        self._left = 0
        return b""

    async def write(self, data: Piece, timeout: float | None) -> None:
        """Write all of `data`, or until a reply comes first.

        Raises:
            TimeoutError: Nothing was taken for `timeout` seconds.
            BadReplyError: The server wants none of it.
            OSError: The connection broke.
        """
        link, reply, rest = self.link, self.parser, memoryview(data)
        assert reply is not None
        if not reply.number:
            self._open(reply)
        while True:
            self._check()
            done = 0
            if not reply.has_sent_all and reply.status is None:
                ends = self._left is not None and self._left == len(rest)
                done = link.state.send(reply, rest, ends=ends)
                rest = rest[done:]
                if self._left is not None:
                    self._left -= done
            if not link.write_pending():
                link.take_rest()
                self._check()
                if reply.status is None:
                    raise BrokenPipeError
            self.has_written = True
            while link.is_write_paused and reply.status is None:
                await self.wait(timeout)
                self._check()
            if not rest or reply.status is not None:
                return
            if not done:
                await self.wait(timeout)  # for window

    def _open(self, reply: StreamReply) -> None:
        assert self._fields is not None
        if not self.link.can_begin:
            raise BrokenPipeError
        self.link.begin(self, reply, self._fields, ends=self._left == 0)

    def _check(self) -> None:
        if self.is_cut:
            raise BrokenPipeError
        if self.failure is not None:
            raise self.failure

    # The reply.

    def heard(self) -> None:
        """Something came, or nothing more will."""
        reply, timeline = self.parser, self._timeline
        if reply is None or timeline is None:
            return
        if timeline.first_byte is None and reply.is_begun:
            timeline.first_byte = self.monotonic()
        if self.is_draining:
            self._drain_budget -= reply.drop()
            self.link.state.credit(reply)
            if self._drain_budget < 0 or reply.failure is not None:
                self.drop()
                return
        if reply.is_complete:
            if not self.is_draining:
                timeline.last_byte = self.monotonic()
            self._leave()
        self.notify()

    def resume(self) -> None:
        """Let the server go on, once its bytes have been taken."""
        if self.parser is not None and not self.link.is_cut:
            self.link.state.credit(self.parser)
            self.link.write_pending()

    def drain(self) -> None:
        """Await the end only, within bounds; the stream is reset if it does not come."""
        reply = self.parser
        if self.is_draining or reply is None:
            return
        self.is_draining = True
        self._drain_budget = DRAIN_BYTES
        self._drain_timer = self.loop.call_later(DRAIN_TIME, self.drop)
        self.heard()

    def drop_reply(self, parser: Reply) -> None:
        """Drop it if it still carries this reply."""
        if self.parser is parser:
            self.drop()

    def drop(self) -> None:
        """Reset the stream at once, so that the server stops; never raises."""
        if not self._is_over:
            self.is_cut = True
            self._leave()
            self.notify()

    def _leave(self) -> None:
        reply, self.parser, self._is_over = self.parser, None, True
        self._stop_timer()
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None
        self.link.leave(self, reply if reply is not None and reply.number else None)
        if self.place is not None:
            free_place(self)
