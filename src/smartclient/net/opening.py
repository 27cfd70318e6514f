"""Open a connection on an asyncio loop: look-up, TCP and TLS within one timeout."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from .._call import Span, Timeline
from . import failures
from .dial import Connect, Resolve, Secure, Step, dial
from .dns import RESOLVER, LookUp
from .pool import Pool
from .racing import ATTEMPT_DELAY, Race
from .routes import Route
from .streams import Keep, StreamConnection
from .tcp import Address, check_connected, prepare, start_connecting

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
    opening = _Opening(route, pool, keep, timeline, monotonic)
    started = monotonic()
    try:
        async with asyncio.timeout(timeout):
            return await opening.run()
    except TimeoutError:
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
        timeline: Timeline,
        monotonic: Callable[[], float],
    ) -> None:
        self.route, self.pool, self.keep = route, pool, keep
        self.timeline, self.monotonic = timeline, monotonic
        self.loop = asyncio.get_running_loop()
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
                addresses = await self._resolve(host, port)
                self.timeline.dns = Span(started, self.monotonic())
                return addresses
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
        sock = start_connecting(address)
        try:
            writable = self.loop.create_future()
            self.loop.add_writer(sock, _set, writable)
            try:
                await writable
            finally:
                self.loop.remove_writer(sock)
            check_connected(sock)
        except BaseException:
            sock.close()
            raise
        return sock

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


def _close(attempt: asyncio.Task[socket.socket]) -> None:
    """Close what has connected though another was faster."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(event.set)
