"""One blocking connection: a socket that is never read without a timeout of ours.

The socket itself does not block: a write usually fits into the kernel's buffer, so it costs
one system call, and whoever has to wait polls.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .._call import Origin
from .failures import BadReplyError
from .lifetime import Aging
from .options import DRAIN_BYTES, DRAIN_TIME, DRAIN_WAIT, REAL
from .tcp import Readiness, wait_for

if TYPE_CHECKING:
    from .http1 import ReplyParser
    from .limits import Place
    from .pool import Pool

__all__ = ["RECEIVE", "Drained", "SocketConnection"]

RECEIVE = 64 * 1024
"""Most bytes that one read takes."""

Drained: TypeAlias = Literal["free", "pending", "broken"]


class SocketConnection(Aging):
    """A connection and what is known about it.

    Only its user reads and writes. `cut` may come from any thread: while the user is inside
    a system call the descriptor stays open, because its number could be given to another
    socket; the call is woken instead and the user closes.

    Attributes:
        owner: Whose call it carries.
        place: What that call holds of its client's own limit.
    """

    __slots__ = (
        "_drained_by",
        "_draining",
        "_is_busy",
        "can_read",
        "is_cut",
        "origin",
        "owner",
        "place",
        "pool",
        "sock",
    )

    def __init__(self, sock: socket.socket, origin: Origin, pool: Pool[SocketConnection]) -> None:
        self.sock = sock
        self.origin = origin
        self.pool = pool
        self.owner: object = None
        self.place: Place | None = None
        super().__init__()
        self.is_cut = self._is_busy = False
        self._draining: ReplyParser | None = None
        self._drained_by = 0.0
        self.can_read = Readiness(sock).within

    @property
    def carrier(self) -> tuple[Any, Any]:
        """The socket, and the TLS on it."""
        is_tls = hasattr(self.sock, "selected_alpn_protocol")  # `ssl` may not be loaded
        return self.sock, self.sock if is_tls else None

    def receive(self, timeout: float | None) -> bytes:
        """What has come; `b""` at the end.

        Raises:
            TimeoutError: Nothing came for `timeout` seconds.
            OSError: The connection broke.
        """
        self._is_busy = True
        try:
            if self.is_cut:
                return b""
            return self._receive(timeout)
        finally:
            self._is_busy = False
            if self.is_cut:
                self.sock.close()

    def send(self, data: bytes | memoryview, timeout: float | None) -> int:
        """Write as much as there is room for; raises like `receive`."""
        self._is_busy = True
        try:
            if self.is_cut:
                raise BrokenPipeError
            return self._send(data, timeout)
        finally:
            self._is_busy = False
            if self.is_cut:
                self.sock.close()

    def is_stale(self) -> bool:
        """Whether the server has closed, or sent what nobody asked for, while idle."""
        if self.is_cut or not self.can_read(0.0):
            return self.is_cut
        try:
            # Session tickets of TLS make it readable too, and nothing can be read.
            self.receive(0.0)
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def is_fit(self, now: float) -> bool:
        """Whether it can carry a call, after lying idle."""
        parser = self._draining
        if parser is not None and self._drain(parser, now, now + DRAIN_WAIT) != "free":
            return False
        return not self.is_stale()

    def drain(self, parser: ReplyParser, now: float) -> Drained:
        """Take in what is left of a reply that nobody wants, as far as it has come.

        When that is `pending`, `is_fit` takes in the rest.
        """
        self._draining, self._drained_by = parser, now + DRAIN_TIME
        return self._drain(parser, now, now)

    def _drain(self, parser: ReplyParser, now: float, until: float) -> Drained:
        """Take in what is left of a reply, and wait for it `until` then in all."""
        budget = DRAIN_BYTES - parser.drop()
        try:
            while not parser.is_complete and budget >= 0 and now < self._drained_by:
                parser.feed(self.receive(max(0.0, until - now)))
                budget -= parser.drop()
                now = REAL()
        except TimeoutError:
            return "pending"
        except (OSError, BadReplyError):
            return "broken"
        self._draining = None
        return "free" if parser.is_complete and parser.keep_alive else "broken"

    def cut(self) -> None:
        """Close at once, so that the server stops; never blocks, never raises."""
        if self.is_cut:
            return
        self.is_cut = True
        if self._is_busy:
            with contextlib.suppress(OSError):
                # Not an SSLSocket's own method: that would pull the TLS layer from its reader.
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        else:
            with contextlib.suppress(OSError):
                self.sock.close()

    def forget(self) -> None:
        """Close this process's copy only; a parent goes on using the connection."""
        self.is_cut = True
        with contextlib.suppress(OSError):
            self.sock.close()

    def _receive(self, timeout: float | None) -> bytes:
        while True:
            if not self.can_read(timeout):
                raise TimeoutError
            try:
                return self.sock.recv(RECEIVE)
            except BlockingIOError:
                continue  # another look: the readiness was spurious

    def _send(self, data: bytes | memoryview, timeout: float | None) -> int:
        has_room = True
        while has_room:
            try:
                return self.sock.send(data)
            except BlockingIOError:
                has_room = False
            has_room = wait_for(self.sock, write=True, timeout=timeout)
        raise TimeoutError
