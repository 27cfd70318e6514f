"""One asyncio connection: a protocol that parses what comes as it comes.

TLS is done here, over a plain transport, so that TCP and TLS are timed apart and a stream
costs two small buffers. There is one timer per connection, moved when it fires, instead of
one per read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from .._call import Origin, Timeline
from .._errors import Sent
from .failures import BadReplyError
from .http1 import ReplyParser
from .options import DRAIN_BYTES, DRAIN_TIME, DRAIN_WAIT, REAL
from .pool import Pool
from .tcp import Readiness

if TYPE_CHECKING:
    from .tls import TlsBuffer

__all__ = ["UNREAD_LIMIT", "Keep", "StreamConnection"]

UNREAD_LIMIT = 256 * 1024
"""Body bytes that wait for their reader before the server is made to wait."""


class Keep(Protocol):
    """Takes a connection back, idle until `expires`."""

    def __call__(
        self,
        connection: StreamConnection,
        expires: float | None,
        *,
        last: bool = True,
    ) -> None: ...


class StreamConnection(asyncio.Protocol):
    """A connection and what is known about it; belongs to one loop.

    Attributes:
        owner: Whose call it carries.
        parser: Of the reply that is being read; `None` while idle.
        failure: Why nothing more will come.
        is_sending: The request is not written in full yet.
        has_written: The kernel has taken some of it.
        is_draining: The rest of the reply is read for its end only.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        origin: Origin,
        pool: Pool[StreamConnection],
        keep: Keep,
    ) -> None:
        self.loop = loop
        self.origin = origin
        self.pool = pool
        self.owner: object = None
        self.parser: ReplyParser | None = None
        self.timeline: Timeline | None = None
        self.monotonic: Callable[[], float] = loop.time
        self._keep = keep
        self._idle_expiry: float | None = None
        self.failure: BadReplyError | OSError | None = None
        self.num_exchanges = 0
        self.is_cut = self.is_draining = self.is_sending = self.has_written = False
        self._can_read = Readiness(sock).within
        self._transport: asyncio.Transport | None = None
        self._tls: TlsBuffer | None = None
        self._is_shaking = False
        self._is_write_paused = self._is_read_paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._drain_budget = 0
        self._drain_timer: asyncio.TimerHandle | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Paused as soon as anything is left over: `write` is done when the kernel has it.
        transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        if self._tls is None:
            self._take(data)
            return
        self._tls.put(data)
        if self._is_shaking:
            self._notify()
        else:
            self._decrypt(self._tls)

    def eof_received(self) -> None:
        if self._tls is not None:
            self._tls.put(b"")
            if not self._is_shaking:
                self._decrypt(self._tls)
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError):
            self._fail(exc)
        else:
            self._end()

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._notify()

    @property
    def sent(self) -> Sent:
        """How much of the request was written, while it is being written."""
        return "part" if self.has_written else "nothing"

    # What the exchange calls.

    async def start_tls(self, tls: TlsBuffer) -> None:
        """Shake hands.

        Raises:
            OSError: It failed; `ssl.SSLError` is one.
        """
        self._tls, self._is_shaking = tls, True
        try:
            while not tls.shake():
                self._flush(tls)
                if self.failure is not None:
                    raise ConnectionResetError("the server closed during the handshake")
                await self.wait(None)
        finally:
            self._flush(tls)  # its end, or the alert that says what is wrong
            self._is_shaking = False

    async def is_fit(self) -> bool:
        """Whether it can carry a call, after lying idle."""
        if self.is_draining:
            try:
                while self.is_draining and self.failure is None:
                    await self.wait(DRAIN_WAIT)
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

    async def write(self, data: bytes | memoryview, timeout: float | None) -> None:
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
        if transport.is_closing():
            raise BrokenPipeError  # the first attempt failed; its error comes later, if at all
        left = transport.get_write_buffer_size()
        self.has_written = self.has_written or left < len(data)
        while self._is_write_paused and parser.status is None:
            if self.failure is not None or self.is_cut:
                raise self.failure if isinstance(self.failure, OSError) else BrokenPipeError
            await self.wait(timeout)
            if transport.get_write_buffer_size() < left:
                self.has_written = True
        self.has_written = True

    async def wait(self, timeout: float | None) -> None:
        """Wait until something happens to the connection.

        Raises:
            TimeoutError: Nothing did for `timeout` seconds.
        """
        # One that is done belongs to a reader who has not run yet, of a reply that is complete.
        if self._waiter is not None and not self._waiter.done():
            raise RuntimeError("another task reads this reply already; let one task read it")
        waiter = self._waiter = self.loop.create_future()
        if timeout is not None:
            self._deadline = self.loop.time() + timeout
            self._set_timer()
        else:
            self._deadline = float("inf")
        try:
            await waiter
        finally:
            if self._waiter is waiter:
                self._waiter = None

    def resume(self) -> None:
        """Let the server go on, once its bytes have been taken."""
        if self._is_read_paused and self._transport is not None:
            self._is_read_paused = False
            self._transport.resume_reading()

    def begin(
        self,
        parser: ReplyParser,
        timeline: Timeline,
        monotonic: Callable[[], float],
        idle_expiry: float | None,
    ) -> None:
        """Expect a reply; once it is here the connection is idle, for `idle_expiry` seconds."""
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

    def drop_reply(self, parser: ReplyParser) -> None:
        """Drop it if it still carries this reply."""
        if self.parser is parser:
            self.drop()

    def drop(self) -> None:
        """Close at once, so that the server stops, and free the place; never raises."""
        if not self.is_cut:
            self.is_cut = True
            self._forget_reply()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._transport is not None:
                self._transport.abort()
            self.pool.discard(self)
            self._notify()

    # What has come.

    def _decrypt(self, tls: TlsBuffer) -> None:
        try:
            data = tls.decrypted()
        except OSError as error:
            self._fail(error)
            return
        self._flush(tls)
        if data:
            self._take(data)
        if tls.is_at_end:
            self._end()

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
        self._notify()

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
        self._fail(ConnectionResetError("the server closed"))

    def _fail(self, failure: BadReplyError | OSError) -> None:
        if self.failure is None:
            self.failure = failure
        if self.is_draining or self in self.pool.idle:
            self.drop()
        self._notify()

    def _complete(self, parser: ReplyParser) -> None:
        """The reply is here in full: its connection is free before anybody reads it."""
        was_draining = self.is_draining
        if self.timeline is not None and not was_draining:
            self.timeline.last_byte = self.monotonic()
        self._forget_reply()
        if not parser.keep_alive or self.is_sending:
            self.drop()
        elif not was_draining:
            self._keep_with(parser)
        elif self in self.pool.idle:
            self.pool.prefer(self)

    def _keep_with(self, parser: ReplyParser, *, last: bool = True) -> None:
        self._keep(self, parser.expires(REAL(), self._idle_expiry), last=last)

    def _forget_reply(self) -> None:
        self.parser = self.timeline = None
        self.is_draining = False
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None

    def _flush(self, tls: TlsBuffer) -> None:
        data = tls.pending()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _is_dead(self) -> bool:
        return (
            self.is_cut
            or self.failure is not None
            or self._transport is None
            or self._transport.is_closing()
        )

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _set_timer(self) -> None:
        if self._timer is not None:
            if self._timer.when() <= self._deadline:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self.loop.time() >= self._deadline:
            waiter.set_exception(TimeoutError())
        elif self._deadline != float("inf"):
            self._set_timer()
