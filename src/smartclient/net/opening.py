"""Open a connection on an asyncio loop: look-up, TCP and TLS within one timeout."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from .._call import Origin, Span, Timeline
from . import failures
from .options import REAL
from .pool import Pool
from .streams import Keep, StreamConnection
from .tcp import Address, addresses_of, numeric_addresses, prepare

if TYPE_CHECKING:
    from .tls import Trust

__all__ = ["open_stream"]


async def open_stream(
    origin: Origin,
    pool: Pool[StreamConnection],
    *,
    keep: Keep,
    trust: Trust | None,
    timeout: float | None,
    timeline: Timeline,
    monotonic: Callable[[], float],
) -> StreamConnection:
    """Open a connection; arguments and errors are those of `sockets.connect`."""
    opening = _Opening(origin, pool, keep, timeline, monotonic)
    started = REAL()
    try:
        async with asyncio.timeout(timeout):
            return await opening.run(trust, timeout)
    except TimeoutError:
        raise failures.unopened_in_time(
            origin, stage=opening.stage, timeout=timeout or 0.0, waited=REAL() - started
        ) from None


class _Opening:
    """The steps to a connection; `stage` tells where it stands when the time runs out."""

    def __init__(
        self,
        origin: Origin,
        pool: Pool[StreamConnection],
        keep: Keep,
        timeline: Timeline,
        monotonic: Callable[[], float],
    ) -> None:
        self.origin, self.pool, self.keep = origin, pool, keep
        self.timeline, self.monotonic = timeline, monotonic
        self.loop = asyncio.get_running_loop()
        self.stage = "dns"

    async def run(self, trust: Trust | None, timeout: float | None) -> StreamConnection:
        by = None if timeout is None else self.loop.time() + timeout
        addresses = numeric_addresses(self.origin.host, self.origin.port)
        if addresses is None:
            started = self.monotonic()
            addresses = await self._look_up()
            self.timeline.dns = Span(started, self.monotonic())
        self.stage, started = "tcp", self.monotonic()
        sock = await self._connect_tcp(addresses, by)
        connection = StreamConnection(self.loop, sock, self.origin, self.pool, self.keep)
        try:
            prepare(sock)
            await self.loop.create_connection(lambda: connection, sock=sock)
            self.timeline.tcp = Span(started, self.monotonic())
            if trust is not None:
                await self._start_tls(connection, trust)
        except BaseException:
            connection.drop()
            sock.close()
            raise
        return connection

    async def _look_up(self) -> list[Address]:
        origin = self.origin
        try:
            found = await self.loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise failures.unresolved(origin, error) from error
        return addresses_of(found)

    async def _connect_tcp(self, addresses: list[Address], by: float | None) -> socket.socket:
        last: OSError | None = None
        for tried, (family, address) in enumerate(addresses):
            # An equal share of what is left: a dead first address must not use it all up.
            left = None if by is None else by - self.loop.time()
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
            raise last
        raise failures.unopened(self.origin, last, tried=len(addresses)) from last

    async def _start_tls(self, connection: StreamConnection, trust: Trust) -> None:
        from .tls import TlsBuffer, tls_failure

        self.stage = "tls"
        context = trust.known_context()
        if context is None:
            # In a thread: reading the list of authorities takes 20 ms.
            context = await asyncio.to_thread(trust.context)
        started = self.monotonic()
        try:
            await connection.start_tls(TlsBuffer(context, self.origin.host))
        except OSError as error:
            raise tls_failure(self.origin, error, trust) from error
        self.timeline.tls = Span(started, self.monotonic())
