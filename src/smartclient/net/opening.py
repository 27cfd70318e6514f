"""Open a connection on an asyncio loop: look-up, TCP and TLS within one timeout."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._call import Span, Timeline
from . import failures
from .dial import Connect, Resolve, Secure, Step, dial
from .pool import Pool
from .routes import Route
from .streams import Keep, StreamConnection
from .tcp import Address, addresses_of, prepare

if TYPE_CHECKING:
    from .tls import Trust

__all__ = ["open_stream"]


async def open_stream(
    route: Route,
    pool: Pool[StreamConnection],
    *,
    keep: Keep,
    timeout: float | None,
    timeline: Timeline,
    monotonic: Callable[[], float],
) -> StreamConnection:
    """Open a connection.

    Raises:
        ExchangeError: Of kind resolve, connect, connect_timeout, tls or certificate.
    """
    opening = _Opening(route, pool, keep, timeout, timeline, monotonic)
    started = monotonic()
    try:
        async with asyncio.timeout(timeout):
            return await opening.run()
    except (TimeoutError, _OutOfTimeError):
        raise failures.unopened_in_time(
            route.origin, stage=opening.stage, timeout=timeout or 0.0, waited=monotonic() - started
        ) from None


class _Opening:
    """Performs the steps; `stage` tells where it stands when the time runs out."""

    def __init__(
        self,
        route: Route,
        pool: Pool[StreamConnection],
        keep: Keep,
        timeout: float | None,
        timeline: Timeline,
        monotonic: Callable[[], float],
    ) -> None:
        self.route, self.pool, self.keep = route, pool, keep
        self.timeline, self.monotonic = timeline, monotonic
        self.loop = asyncio.get_running_loop()
        self.by = None if timeout is None else self.loop.time() + timeout
        self.connection: StreamConnection | None = None
        self.stage = "dns"

    async def run(self) -> StreamConnection:
        steps = dial(self.route)
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._perform(step)
                except (OSError, UnicodeError) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration:
            assert self.connection is not None
            return self.connection
        except BaseException:
            if self.connection is not None:
                self.connection.drop()
            raise

    async def _perform(self, step: Step) -> Any:
        match step:
            case Resolve(host, port):
                self.stage, started = "dns", self.monotonic()
                found = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                self.timeline.dns = Span(started, self.monotonic())
                return addresses_of(found)
            case Connect(addresses):
                self.stage, started = "tcp", self.monotonic()
                await self._connect(addresses)
                self.timeline.tcp = Span(started, self.monotonic())
            case Secure(host, trust):
                await self._secure(host, trust)
        return None

    async def _connect(self, addresses: list[Address]) -> None:
        sock = await self._connect_tcp(addresses)
        connection = StreamConnection(self.loop, sock, self.route.origin, self.pool, self.keep)
        try:
            prepare(sock)
            await self.loop.create_connection(lambda: connection, sock=sock)
        except BaseException:
            connection.drop()
            sock.close()
            raise
        self.connection = connection

    async def _connect_tcp(self, addresses: list[Address]) -> socket.socket:
        last: OSError | None = None
        for tried, (family, address) in enumerate(addresses):
            # An equal share of what is left: a dead first address must not use it all up.
            left = None if self.by is None else self.by - self.loop.time()
            share = None if left is None else left / (len(addresses) - tried)
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            try:
                async with asyncio.timeout(share):
                    await self.loop.sock_connect(sock, address)
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
            raise _OutOfTimeError
        raise last

    async def _secure(self, host: str, trust: Trust) -> None:
        from .tls import TlsBuffer

        assert self.connection is not None
        self.stage = "tls"
        context = trust.known_context()
        if context is None:
            # In a thread: reading the list of authorities takes 20 ms.
            context = await asyncio.to_thread(trust.context)
        started = self.monotonic()
        await self.connection.start_tls(TlsBuffer(context, host))
        self.timeline.tls = Span(started, self.monotonic())


class _OutOfTimeError(Exception):
    """Every address was given its share of the time."""
