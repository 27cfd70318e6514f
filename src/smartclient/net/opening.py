"""Open a connection on an asyncio loop: look-up, TCP and TLS within one timeout."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .._call import Span, Timeline
from . import failures
from .approach import Approach
from .dial import Connect, Receive, Resolve, Secure, SecureProxy, Send, Step, dial
from .dns import RESOLVER, LookUp
from .link import Keep, Link
from .options import REAL
from .pool import Pool
from .racing import ATTEMPT_DELAY, Race
from .routes import Route
from .streams import StreamConnection
from .tcp import Address, check_connected, start_connecting
from .waiting import settle

if TYPE_CHECKING:
    from ssl import SSLContext

    from .tls import TlsBuffer, Trust

__all__ = ["open_stream"]

L = TypeVar("L", bound=Link)


async def open_stream(
    route: Route,
    pool: Pool[Link],
    *,
    keep: Keep,
    timeout: float | None,
    timeline: Timeline,
    monotonic: Callable[[], float],
) -> Link:
    """Open a connection.

    Raises:
        ExchangeError: Of kind resolve, connect, connect_timeout, tls or certificate.
    """
    opening = _Opening(route, pool, keep, timeline, monotonic)
    started = REAL()
    timeout, by = timeline.within(timeout)
    try:
        async with asyncio.timeout(timeout):
            return await opening.run()
    except TimeoutError:
        waited, stage = REAL() - started, opening.stage
        raise failures.late(
            failures.unopened_in_time(
                route.origin, stage=stage, timeout=timeout or 0.0, waited=waited, via=route.proxy
            ),
            by,
            stage=stage,
        ) from None


class _Opening:
    """Performs the steps; `stage` tells where it stands when the time runs out."""

    def __init__(
        self,
        route: Route,
        pool: Pool[Link],
        keep: Keep,
        timeline: Timeline,
        monotonic: Callable[[], float],
    ) -> None:
        self.route, self.pool, self.keep = route, pool, keep
        self.timeline, self.monotonic = timeline, monotonic
        self.loop = asyncio.get_running_loop()
        self.connection: Link | None = None
        self.stage = "dns"
        self.looked_up_at: float | None = None
        self.began_at: float | None = None
        self.proxy_tls: TlsBuffer | None = None

    async def run(self) -> Link:
        steps = dial(self.route)
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._perform(step)
                except (OSError, UnicodeError) as error:
                    step = steps.throw(failures.bare(error))
                else:
                    step = steps.send(answer)
        except StopIteration:
            self._lead_on()
            assert self.connection is not None
            return self.connection
        except BaseException:
            if self.connection is not None:
                self.connection.drop()
            raise

    async def _perform(self, step: Step) -> Any:
        match step:
            case Resolve(host, port):
                # A proxy may need two look-ups: the time of both is theirs.
                self.stage, started = "dns", self.looked_up_at or self.monotonic()
                self.looked_up_at = started
                addresses = await self._resolve(host, port)
                self.timeline.dns = Span(started, self.monotonic())
                return addresses
            case Connect(addresses):
                self.stage, started = "tcp", self.began_at or self.monotonic()
                self.began_at = started
                if self.connection is not None:
                    self.connection.drop()
                await self._connect(addresses)
                self.timeline.tcp = Span(started, self.monotonic())
            case Secure(host, trust):
                self._lead_on()
                return await self._secure(host, trust)
            case _:
                return await self._ask_proxy(step)
        return None

    async def _ask_proxy(self, step: SecureProxy | Send | Receive) -> Any:
        """Counts as TCP: whoever is behind the proxy is connected after it."""
        self.stage = "proxy"
        answer: bytes | str | None = None
        assert isinstance(self.connection, Approach)
        match step:
            case SecureProxy(host, trust):
                from .tls import TlsBuffer

                self.proxy_tls = TlsBuffer(await self._context(trust), host)
                await self.connection.start_tls(self.proxy_tls)
                answer = self.proxy_tls.protocol
            case Send(data):
                await self.connection.send(data)
            case Receive():
                answer = await self.connection.receive()
        assert self.timeline.tcp is not None
        self.timeline.tcp = Span(self.timeline.tcp.start, self.monotonic())
        return answer

    def _lead_on(self) -> None:
        """What is connected is the way to the origin: a connection of its own goes on with it."""
        approach = self.connection
        if isinstance(approach, Approach):
            self._go_on(approach, self._kind())

    def _go_on(self, before: Link, kind: type[Link]) -> None:
        self.connection = self._connection(kind, before._sock)
        before.hand_over(self.connection)

    def _kind(self) -> type[Link]:
        """What speaks to the origin, as far as that is known before a handshake."""
        if self.route.trust is None and self.route.http_version == "2":
            from .multiplex import Multiplex  # with h2, which HTTP/1.1 never needs

            return Multiplex
        return StreamConnection

    def _connection(self, kind: type[L], sock: socket.socket) -> L:
        return kind(self.loop, sock, self.route.origin, self.pool, self.keep)

    async def _connect(self, addresses: list[Address]) -> None:
        sock = await self._connect_tcp(addresses)
        connection = self._connection(self._kind() if self.route.proxy is None else Approach, sock)
        try:
            await self.loop.create_connection(lambda: connection, sock=sock)
        except BaseException:
            connection.drop()
            sock.close()
            raise
        self.connection = connection

    async def _resolve(self, host: str, port: int) -> list[Address]:
        answer = RESOLVER.ask(host, port)
        if isinstance(answer, LookUp):
            done = asyncio.Event()
            answer.notify(partial(_wake, self.loop, done))
            await done.wait()
            answer = answer.result()
        return answer

    async def _connect_tcp(self, addresses: list[Address]) -> socket.socket:
        if len(addresses) == 1:
            return await self._attempt(addresses[0])
        race = Race(addresses)
        running: dict[asyncio.Task[socket.socket], Address] = {}
        try:
            while not race.is_lost:
                address = race.start()
                if address is not None:
                    running[self.loop.create_task(self._attempt(address))] = address
                    continue
                patience = ATTEMPT_DELAY if race.has_more else None
                done, _ = await asyncio.wait(
                    running, timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    race.is_late()
                for task in done:
                    address = running.pop(task)
                    error = task.exception()
                    if error is None:
                        return task.result()
                    if not isinstance(error, OSError):
                        raise error
                    RESOLVER.failed(address)
                    race.failed(error)
        finally:
            # Not awaited: whoever cancels us waits for nobody.
            for task in running:
                task.cancel()
                task.add_done_callback(_close)
        raise race.error

    async def _attempt(self, address: Address) -> socket.socket:
        route = self.route
        sock = start_connecting(address, route.local_address, route.socket_options)
        try:
            writable = self.loop.create_future()
            self.loop.add_writer(sock, settle, writable)
            try:
                await writable
            finally:
                self.loop.remove_writer(sock)
            check_connected(sock)
        except BaseException:
            sock.close()
            raise
        return sock

    async def _secure(self, host: str, trust: Trust) -> str | None:
        from .tls import TlsBuffer

        assert self.connection is not None
        self.stage = "tls"
        context = await self._context(trust)
        started = self.monotonic()
        if self.proxy_tls is None:
            tls = TlsBuffer(context, host)
        else:
            from .nested import NestedTls

            tls = NestedTls(self.proxy_tls, context, host)
        await self.connection.start_tls(tls)
        self.timeline.tls = Span(started, self.monotonic())
        if tls.protocol == "h2":
            from .multiplex import Multiplex  # with h2, which HTTP/1.1 never needs

            self._go_on(self.connection, Multiplex)
        return tls.protocol

    async def _context(self, trust: Trust) -> SSLContext:
        context = trust.known_context()
        if context is None:
            # In a thread: reading the list of authorities takes 20 ms.
            context = await asyncio.to_thread(trust.context)
        return context


def _close(attempt: asyncio.Task[socket.socket]) -> None:
    """Close what has connected though another was faster."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(event.set)
