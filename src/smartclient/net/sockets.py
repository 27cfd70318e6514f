"""One blocking connection: a socket that is never read without a timeout of ours.

The socket itself does not block: a write usually fits into the kernel's buffer, so it costs
one system call, and whoever has to wait polls.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from .._call import Origin, Span, Timeline
from . import failures
from .failures import BadReplyError
from .options import DRAIN_BYTES, DRAIN_TIME, DRAIN_WAIT, REAL
from .tcp import Address, Readiness, addresses_of, numeric_addresses, prepare, wait_for

if TYPE_CHECKING:
    from .http1 import ReplyParser
    from .pool import Pool
    from .tls import Trust

__all__ = ["RECEIVE", "Drained", "SocketConnection", "connect"]

RECEIVE = 64 * 1024
"""Most bytes that one read takes."""

Drained: TypeAlias = Literal["free", "pending", "broken"]


class SocketConnection:
    """A connection and what is known about it.

    Only its user reads and writes. `cut` may come from any thread: while the user is inside
    a system call the descriptor stays open, because its number could be given to another
    socket; the call is woken instead and the user closes.

    Attributes:
        owner: Whose call it carries.
    """

    __slots__ = (
        "_drained_by",
        "_draining",
        "_is_busy",
        "can_read",
        "is_cut",
        "num_exchanges",
        "origin",
        "owner",
        "pool",
        "sock",
    )

    def __init__(self, sock: socket.socket, origin: Origin, pool: Pool[SocketConnection]) -> None:
        self.sock = sock
        self.origin = origin
        self.pool = pool
        self.owner: object = None
        self.num_exchanges = 0
        self.is_cut = self._is_busy = False
        self._draining: ReplyParser | None = None
        self._drained_by = 0.0
        self.can_read = Readiness(sock).within

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
        return self.is_cut or self.can_read(0.0)

    def is_fit(self, now: float) -> bool:
        """Whether it can carry a call, after lying idle."""
        parser = self._draining
        if parser is not None and self._drain(parser, now, wait=DRAIN_WAIT) != "free":
            return False
        return not self.is_stale()

    def drain(self, parser: ReplyParser, now: float) -> Drained:
        """Take in what is left of a reply that nobody wants, as far as it has come.

        When that is `pending`, `is_fit` takes in the rest.
        """
        self._draining, self._drained_by = parser, now + DRAIN_TIME
        return self._drain(parser, now, wait=0.0)

    def _drain(self, parser: ReplyParser, now: float, *, wait: float) -> Drained:
        budget = DRAIN_BYTES - parser.drop()
        try:
            while not parser.is_complete and budget >= 0 and now < self._drained_by:
                data = self.receive(wait)
                parser.feed(data)
                budget -= parser.drop()
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
        while True:
            try:
                return self.sock.send(data)
            except BlockingIOError:
                if not wait_for(self.sock, write=True, timeout=timeout):
                    raise TimeoutError from None


def connect(
    origin: Origin,
    pool: Pool[SocketConnection],
    *,
    trust: Trust | None,
    timeout: float | None,
    timeline: Timeline,
    monotonic: Callable[[], float],
) -> SocketConnection:
    """Open a connection: look-up, TCP and TLS within one timeout.

    Args:
        trust: Whose certificates are accepted; `None` for a plain origin.
        monotonic: The clock of the timeline; the timeout is of real time.

    Raises:
        ExchangeError: Of kind resolve, connect, connect_timeout or tls.
    """
    started = REAL()

    def left(stage: str, share: int = 1) -> float | None:
        """Seconds for one of `share` steps; raises when there are none."""
        if timeout is None:
            return None
        waited = REAL() - started
        if share == 0 or waited >= timeout:
            raise failures.unopened_in_time(origin, stage=stage, timeout=timeout, waited=waited)
        return (timeout - waited) / share

    addresses = _look_up(origin, timeline, monotonic)
    begun = monotonic()
    sock = _connect_tcp(origin, addresses, left)
    try:
        prepare(sock)
        timeline.tcp = Span(begun, monotonic())
        if trust is None:
            sock.setblocking(False)
            return SocketConnection(sock, origin, pool)
        from .tls import TlsConnection

        trust.context()  # built before the handshake is timed
        begun = monotonic()
        tls = TlsConnection.open(sock, origin, pool, trust, lambda: left("tls"))
        timeline.tls = Span(begun, monotonic())
        return tls
    except BaseException:
        sock.close()
        raise


def _look_up(origin: Origin, timeline: Timeline, monotonic: Callable[[], float]) -> list[Address]:
    known = numeric_addresses(origin.host, origin.port)
    if known is not None:
        return known
    started = monotonic()
    try:
        found = socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise failures.unresolved(origin, error) from error
    timeline.dns = Span(started, monotonic())
    return addresses_of(found)


def _connect_tcp(
    origin: Origin, addresses: list[Address], left: Callable[[str, int], float | None]
) -> socket.socket:
    last: OSError | None = None
    for tried, (family, address) in enumerate(addresses):
        # An equal share of what is left: a dead first address must not use it all up.
        share = left("tcp", len(addresses) - tried)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(share)
            sock.connect(address)
        except OSError as error:
            sock.close()
            last = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    assert last is not None
    if isinstance(last, TimeoutError) and last.errno is None:
        left("tcp", 0)
    raise failures.unopened(origin, last, tried=len(addresses)) from last
