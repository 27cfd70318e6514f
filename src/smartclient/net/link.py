"""What every asyncio connection is: a transport with TLS over it where asked for.

TLS is done here, over a plain transport, so that TCP and TLS are timed apart and a stream
costs two small buffers.
"""

from __future__ import annotations

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from .._call import Call, Headers, Origin, Timeline
from .._errors import Sent
from .failures import BadReplyError
from .lifetime import Aging
from .limits import Place
from .options import REAL
from .pool import Pool
from .tcp import Readiness
from .waiting import Awaited

if TYPE_CHECKING:
    from .tls import TlsBuffer

__all__ = ["Keep", "Lane", "Link", "Piece", "Reply"]

Piece: TypeAlias = bytes | memoryview


class Reply(Protocol):
    """A reply as far as it has come."""

    @property
    def status(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def protocol(self) -> str: ...
    @property
    def is_begun(self) -> bool: ...
    @property
    def is_complete(self) -> bool: ...
    @property
    def unread(self) -> int: ...

    def take(self) -> bytes: ...


class Lane(Protocol):
    """What carries one call: a whole connection, or one stream of it."""

    is_sending: bool
    place: Place | None

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def parser(self) -> Reply | None: ...
    @property
    def failure(self) -> BadReplyError | OSError | None: ...
    @property
    def is_cut(self) -> bool: ...
    @property
    def is_reused(self) -> bool: ...
    @property
    def carrier(self) -> tuple[Any, Any]: ...
    @property
    def sent(self) -> Sent: ...

    def reply_to(self, method: str) -> Reply: ...

    def begin(
        self,
        parser: Reply,
        timeline: Timeline,
        monotonic: Callable[[], float],
        idle_expiry: float | None,
    ) -> None: ...

    def opening(self, call: Call, head: bytes) -> tuple[Piece, memoryview | None]: ...

    def framed(self, data: bytes) -> bytes: ...

    def ending(self) -> bytes: ...

    async def write(self, data: Piece, timeout: float | None) -> None: ...

    async def is_fit(self) -> bool: ...

    async def wait(self, timeout: float | None) -> None: ...

    def resume(self) -> None: ...

    def drain(self) -> None: ...

    def drop_reply(self, parser: Reply) -> None: ...

    def spare(self, idle_expiry: float | None) -> None: ...

    def drop(self) -> None: ...


class Keep(Protocol):
    """Takes a connection back, idle until `expires`."""

    def __call__(
        self,
        connection: Link,
        expires: float | None,
        *,
        last: bool = True,
    ) -> None: ...


class Link(Aging, Awaited, asyncio.Protocol, ABC):
    """A connection; belongs to one loop.

    Attributes:
        owner: Whose call it carries, where it carries one only.
        place: What that call holds of its client's own limit.
        failure: Why nothing more will come.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        origin: Origin,
        pool: Pool[Link],
        keep: Keep,
    ) -> None:
        Aging.__init__(self)
        Awaited.__init__(self, loop)
        self.origin, self.pool, self._keep = origin, pool, keep
        self.owner: object = None
        self.place: Place | None = None
        self.failure: BadReplyError | OSError | None = None
        self.is_cut = False
        self._sock = sock
        self._can_read = Readiness(sock).within
        self._transport: asyncio.Transport | None = None
        self._tls: TlsBuffer | None = None
        self._is_shaking = self._is_write_paused = False

    # What the pool's owner calls.

    @property
    def room(self) -> int | None:
        """How many calls it carries at once; `None`: it cannot be shared."""
        return None

    @property
    def carrier(self) -> tuple[Any, Any]:
        """The socket, and the TLS on it."""
        return self._sock, None if self._tls is None else self._tls.tls

    @abstractmethod
    def lane(self, owner: object) -> Lane:
        """What carries the next call."""

    @abstractmethod
    def evict(self, owner: object) -> None:
        """Cut the calls of `owner`."""

    @abstractmethod
    def drop(self) -> None:
        """Close at once, so that the server stops, and free the place; never raises."""

    def forget(self) -> None:
        """Let go of the parent's socket in a forked child, or its server would not see it close.

        The transport is left alone, since its end would take the socket out of the parent's
        selector. So its descriptor stays, and leads nowhere: a loop that the child goes on
        with knows it by its number, which no new socket may get.
        """
        self.is_cut = True
        nowhere = os.open(os.devnull, os.O_RDWR)
        with suppress(OSError):  # it is closed
            os.dup2(nowhere, self._sock.fileno(), inheritable=False)
        os.close(nowhere)

    # What becomes of what has come.

    @abstractmethod
    def _take(self, data: bytes) -> None: ...

    @abstractmethod
    def _end(self) -> None:
        """The server closed."""

    @abstractmethod
    def _fail(self, failure: BadReplyError | OSError) -> None: ...

    def _note_end(self) -> None:
        """The server closed: remember how long it let an idle connection live."""
        if self in self.pool.idle:
            now = REAL()
            self.pool.life.ended(now - self.idle_since, now)

    # What asyncio calls.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport  # uvloop's are no asyncio.Transport, but have its methods
        # Paused as soon as anything is left over: `write` is done when the kernel has it.
        transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        if self._tls is None:
            self._take(data)
            return
        self._tls.put(data)
        if self._is_shaking:
            self.notify()
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
            self.take_rest()
            self._fail(exc)
        else:
            self._end()

    def take_rest(self) -> None:
        """What came before a write failed, of which asyncio reads no more: it may say why."""
        with suppress(OSError):
            while not self.is_cut and (data := self._sock.recv(65_536)):
                self.data_received(data)

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self.notify()

    # TLS.

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

    def hand_over(self, other: Link) -> None:
        """Let `other` go on with what is connected; this one is done with."""
        transport, tls = self._transport, self._tls
        assert transport is not None
        other._tls, self._transport = tls, None
        transport.set_protocol(other)
        other.connection_made(transport)
        if self.failure is not None:
            other._fail(self.failure)
        elif tls is not None:
            other._decrypt(tls)  # the server may have spoken first

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
