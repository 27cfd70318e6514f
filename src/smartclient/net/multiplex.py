"""One asyncio connection that carries many calls at once, by HTTP/2.

The connection reads whatever comes and tells each stream of its own; a stream waits for
itself only, so that neither its limits nor its reader touch the others.
"""

from __future__ import annotations

import asyncio
import socket

from .._call import Origin
from .failures import BadReplyError, bare
from .http2 import Http2
from .http2_reply import StreamReply
from .http2_request import Fields
from .lanes import StreamLane
from .limits import free_place
from .link import Keep, Link
from .options import REAL
from .pool import Pool

__all__ = ["PING_AFTER", "PING_WAIT", "Multiplex"]

PING_AFTER = 30.0
"""Seconds of silence, while a reply is awaited, after which the server is asked for a sign."""

PING_WAIT = 15.0
"""Seconds that it may take to answer."""

_MOST_UNSENT = 1024 * 1024  # of answers to a server that reads nothing


class Multiplex(Link):
    """A connection of streams.

    Attributes:
        lanes: Calls on it, begun or not.
        state: What is said on it.
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
        self.state = Http2(loop.time())
        self.lanes: set[StreamLane] = set()
        self._by_number: dict[int, StreamLane] = {}
        self._heard = self._asked = loop.time()
        self._watch: asyncio.TimerHandle | None = None

    @property
    def room(self) -> int:
        return 0 if self.state.is_used_up else self.state.most

    def lane(self, owner: object) -> StreamLane:
        return StreamLane(self, owner)

    def evict(self, owner: object) -> None:
        for lane in [lane for lane in self.lanes if lane.owner is owner]:
            lane.drop()

    def drop(self) -> None:
        if not self.is_cut:
            self._close()
            for lane in list(self.lanes):
                lane.drop()

    def forget(self) -> None:
        super().forget()
        for lane in self.lanes:
            lane.is_cut = True

    async def is_fit(self) -> bool:
        """Whether it can carry another call."""
        if not self._by_number and not self._is_dead() and self._can_read(0.0):
            # It was idle: let the loop read, and look what it was.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if self._is_dead():
            # Said at once, before its transport does: the pool would offer it again.
            self._fail(BrokenPipeError("a write failed"))
        # One that is never idle grows old all the same.
        return self.can_begin and not self.is_worn(REAL())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write_pending()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        for lane in list(self._by_number.values()):
            lane.notify()

    @property
    def is_write_paused(self) -> bool:
        """Whether the kernel has not taken all yet."""
        return self._is_write_paused

    @property
    def can_begin(self) -> bool:
        """Whether another stream can be opened now."""
        return self.state.has_room and not self._is_dead()

    def write_pending(self) -> bool:
        """Write what there is to write; false when the connection is broken."""
        data, transport = self.state.pending(), self._transport
        if transport is None or transport.is_closing():
            return False
        if data:
            if self._tls is not None:
                self._tls.encrypt(data)
                data = self._tls.pending()
            transport.write(data)
        return not transport.is_closing()

    def begin(self, lane: StreamLane, reply: StreamReply, fields: Fields, *, ends: bool) -> None:
        """Open a stream for the reply of `lane`."""
        self.state.open(reply, fields, ends=ends)
        self._by_number[reply.number] = lane
        self.num_exchanges += 1
        if self.state.is_used_up:
            self.pool.resize(self, 0)
        if self._watch is None:
            self._watch_over(PING_AFTER)

    def leave(self, lane: StreamLane, reply: StreamReply | None) -> None:
        """A call is done with: what is left of its stream is reset, its room is free."""
        self.lanes.discard(lane)
        if reply is not None:
            self._by_number.pop(reply.number, None)
        if self.is_cut:
            return
        if reply is not None:
            if lane.is_sending and (self._is_write_paused or self.state.is_starved):
                self.state.is_used_up = True  # what stopped it may stop every call after it
            self.state.reset(reply)
            self.write_pending()
        now = REAL()
        if self.state.is_used_up or self.is_worn(now):
            self.pool.resize(self, 0)
        self._keep(self, self.pool.life.until(now, lane.idle_expiry))
        if (self.state.is_used_up or self.is_worn(now)) and not self.lanes:
            self.drop()

    # What has come.

    def _take(self, data: bytes) -> None:
        if self.is_cut:
            return
        state, self._heard = self.state, self.loop.time()
        most, used_up = state.most, state.is_used_up
        try:
            touched = state.receive(data, self._heard)
        except BadReplyError as error:
            self.write_pending()  # says why
            self._fail(error)
            return
        self.write_pending()
        for reply in touched:
            lane = self._by_number.get(reply.number)
            if lane is not None:
                lane.heard()
        if state.has_credit:
            state.has_credit = False
            for lane in list(self._by_number.values()):
                if lane.is_sending:
                    lane.notify()
        if (most, used_up) != (state.most, state.is_used_up):
            self.pool.resize(self, self.room)
            if state.is_used_up and not self.lanes:
                self.drop()
        if self._num_unsent() > _MOST_UNSENT:
            self._fail(BadReplyError("limit", "reads nothing, and sends much that has an answer"))

    def _num_unsent(self) -> int:
        """Bytes that wait for the server to read, and are no request's."""
        transport = self._transport
        if transport is None or any(lane.is_sending for lane in self._by_number.values()):
            return 0
        return transport.get_write_buffer_size()

    def _end(self) -> None:
        self._note_end()
        self._fail(ConnectionResetError("the server closed"))

    def _fail(self, failure: BadReplyError | OSError) -> None:
        if self.failure is None:
            self.failure = bare(failure)
        self.notify()  # a handshake waits here
        if not self.is_cut:
            self._close()
            for lane in list(self.lanes):
                lane.notify()

    def _close(self) -> None:
        self.is_cut = True
        self._stop_timer()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._transport is not None:
            self._transport.abort()
        self.pool.discard(self)
        for lane in self.lanes:
            free_place(lane)

    # Whether the server lives.

    def _watch_over(self, seconds: float) -> None:
        self._watch = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._watch = None
        if not self._by_number:
            return
        now = self.loop.time()
        if self._asked > self._heard:
            silence = now - self._heard
            self._fail(
                BadReplyError(
                    "closed",
                    f"was silent for {silence:.0f} s and answered no PING; the connection is dead",
                )
            )
        elif now - self._heard >= PING_AFTER:
            self._asked = now
            self.state.ping()
            self.write_pending()
            self._watch_over(PING_WAIT)
        else:
            self._watch_over(self._heard + PING_AFTER - now)
