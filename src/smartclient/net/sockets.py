"""One blocking connection: a socket that is never read without a timeout of ours.

The socket itself does not block: a write usually fits into the kernel's buffer, so it costs
one system call, and whoever has to wait polls.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from .._call import Origin, Span, Timeline
from .._errors import ExchangeError
from . import failures
from .dial import Connect, Receive, Resolve, Secure, SecureProxy, Send, Step, dial
from .dns import RESOLVER, LookUp
from .failures import BadReplyError
from .lifetime import Aging
from .options import DRAIN_BYTES, DRAIN_TIME, DRAIN_WAIT, REAL
from .racing import ATTEMPT_DELAY, Race
from .tcp import (
    Address,
    Readiness,
    check_connected,
    start_connecting,
    wait_for,
    wait_for_any,
)

if TYPE_CHECKING:
    from ssl import SSLContext

    from .http1 import ReplyParser
    from .limits import Place
    from .pool import Pool
    from .routes import Route
    from .tls import Trust

__all__ = ["RECEIVE", "Drained", "Opener", "SocketConnection"]

T = TypeVar("T")

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
        has_room = True
        while has_room:
            try:
                return self.sock.send(data)
            except BlockingIOError:
                has_room = False
            has_room = wait_for(self.sock, write=True, timeout=timeout)
        raise TimeoutError


class Opener:
    """Performs the steps to a blocking connection within one timeout."""

    def __init__(
        self,
        route: Route,
        pool: Pool[SocketConnection],
        timeout: float | None,
        timeline: Timeline,
        monotonic: Callable[[], float],
    ) -> None:
        self._route, self._pool = route, pool
        self._timeline, self._monotonic = timeline, monotonic
        self._timeout, self._by = timeline.within(timeout)
        self._started = REAL()
        self._looked_up_at: float | None = None
        self._began_at: float | None = None
        self._sock: socket.socket | None = None
        self._connection: SocketConnection | None = None

    def open(self) -> SocketConnection:
        """The connection.

        Raises:
            ExchangeError: Of kind resolve, connect, connect_timeout, tls or certificate.
        """
        steps = dial(self._route)
        answer: Any = None
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._perform(step)
                except (OSError, UnicodeError) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration:
            assert self._connection is not None
            return self._connection
        except BaseException:
            if self._sock is not None:
                self._sock.close()
            if self._connection is not None:  # TLS has taken the socket over
                self._connection.sock.close()
            raise

    def _perform(self, step: Step) -> Any:
        match step:
            case Resolve(host, port):
                return self._resolve(host, port)
            case Connect(addresses):
                started = self._began_at = self._began_at or self._monotonic()
                if self._sock is not None:
                    self._sock.close()
                self._sock = self._connect(addresses)
                self._timeline.tcp = Span(started, self._monotonic())
                self._connection = SocketConnection(self._sock, self._route.origin, self._pool)
            case Secure(host, trust):
                return self._secure(host, trust)
            case SecureProxy(host, trust):
                return self._secure_proxy(host, trust)
            case Send(data):
                assert self._connection is not None
                self._in_time("proxy", partial(self._send, self._connection, data))
            case Receive():
                assert self._connection is not None
                return self._in_time("proxy", partial(self._receive, self._connection))
        return None

    def _left(self, stage: str) -> float | None:
        """The seconds that are left; raises when there are none."""
        if self._timeout is None:
            return None
        waited = REAL() - self._started
        if waited >= self._timeout:
            raise self._out_of_time(stage)
        return self._timeout - waited

    def _out_of_time(self, stage: str) -> ExchangeError:
        error = failures.unopened_in_time(
            self._route.origin,
            stage=stage,
            timeout=self._timeout or 0.0,
            waited=REAL() - self._started,
            via=self._route.proxy,
        )
        return failures.late(error, self._by, stage=stage)

    def _resolve(self, host: str, port: int) -> list[Address]:
        # A proxy may need two look-ups: the time of both is theirs.
        started = self._looked_up_at = self._looked_up_at or self._monotonic()
        answer = RESOLVER.ask(host, port)
        if isinstance(answer, LookUp):
            if not answer.wait(self._left("dns")):
                raise self._out_of_time("dns")
            answer = answer.result()
        self._timeline.dns = Span(started, self._monotonic())
        return answer

    def _connect(self, addresses: list[Address]) -> socket.socket:
        race = Race(addresses)
        running: dict[socket.socket, Address] = {}
        try:
            while not race.is_lost:
                address = race.start()
                if address is not None:
                    try:
                        running[self._start(address)] = address
                    except OSError as error:
                        RESOLVER.failed(address)
                        race.failed(error)
                    continue
                winner = self._first_of(running, race)
                if winner is not None:
                    del running[winner]
                    return winner
        finally:
            for sock in running:
                sock.close()
        raise race.error

    def _start(self, address: Address) -> socket.socket:
        route = self._route
        return start_connecting(address, route.local_address, route.socket_options)

    def _first_of(self, running: dict[socket.socket, Address], race: Race) -> socket.socket | None:
        """Wait for one that is connected; `None`: another may start."""
        left = self._left("tcp")
        patience = left
        if race.has_more:
            patience = ATTEMPT_DELAY if left is None else min(left, ATTEMPT_DELAY)
        ready = wait_for_any(running, patience)
        if not ready:
            if not race.has_more:
                raise self._out_of_time("tcp")
            race.is_late()
        for sock in ready:
            try:
                check_connected(sock)
            except OSError as error:
                RESOLVER.failed(running.pop(sock))
                race.failed(error)
                sock.close()
            else:
                return sock
        return None

    def _secure(self, host: str, trust: Trust) -> str | None:
        from .tls import TlsConnection

        assert self._sock is not None
        context = trust.context()  # built before the handshake is timed
        started = self._monotonic()
        if self._route.proxy_trust is not None:
            spoken = self._nest(context, host)
        else:
            self._connection = TlsConnection.open(
                self._sock, host, self._route.origin, self._pool, trust, lambda: self._left("tls")
            )
            spoken = self._connection.sock.selected_alpn_protocol()
        self._timeline.tls = Span(started, self._monotonic())
        return spoken

    # What only a proxy asks for. It counts as TCP: whoever is behind it is connected after it.

    def _secure_proxy(self, host: str, trust: Trust) -> str | None:
        from .nested import BufferConnection
        from .tls import TlsBuffer

        assert self._sock is not None
        tls = TlsBuffer(trust.context(), host)
        connection = BufferConnection(self._sock, self._route.origin, self._pool, tls)
        self._in_time("proxy", lambda: connection.shake(lambda: self._left("proxy")))
        self._connection = connection
        self._connected()
        return tls.protocol

    def _nest(self, context: SSLContext, host: str) -> str | None:
        from .nested import BufferConnection

        connection = self._connection
        assert isinstance(connection, BufferConnection)
        connection.nest(context, host)
        self._in_time("tls", lambda: connection.shake(lambda: self._left("tls")))
        return connection.protocol

    def _send(self, connection: SocketConnection, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[connection.send(rest, self._left("proxy")) :]

    def _receive(self, connection: SocketConnection) -> bytes:
        data = connection.receive(self._left("proxy"))
        self._connected()
        return data

    def _in_time(self, stage: str, act: Callable[[], T]) -> T:
        try:
            return act()
        except TimeoutError as error:
            if error.errno is not None:  # the system's own, not ours
                raise
            raise self._out_of_time(stage) from None

    def _connected(self) -> None:
        span = self._timeline.tcp
        assert span is not None
        self._timeline.tcp = Span(span.start, self._monotonic())
