"""The steps to a blocking connection, performed; `opening.py` performs them for asyncio."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .._call import Span, Timeline
from .._errors import ExchangeError
from . import failures
from .dial import Connect, Receive, Resolve, Secure, SecureProxy, Send, Step, dial
from .dns import RESOLVER, LookUp
from .options import REAL
from .racing import ATTEMPT_DELAY, Race
from .sockets import SocketConnection
from .tcp import Address, check_connected, start_connecting, wait_for_any

if TYPE_CHECKING:
    from ssl import SSLContext

    from .pool import Pool
    from .routes import Route
    from .tls import Trust

__all__ = ["Opener"]

T = TypeVar("T")


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
                    step = steps.throw(failures.bare(error))
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
