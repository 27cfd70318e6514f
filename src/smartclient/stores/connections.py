"""Connections to a server that answers one command at a time: kept, bounded, made anew.

For threads, and for each asyncio loop its own. A loop ends its started async generators
before it closes, so its connections belong to one, whose end closes them.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "AsyncConnection",
    "Connection",
    "Connections",
    "Errors",
    "LoopConnections",
    "LostError",
    "NoPlaceError",
    "Progress",
]


class NoPlaceError(Exception):
    """All connections were in use for the whole timeout."""


class LostError(Exception):
    """An exchange failed, for the reason that is its cause.

    Attributes:
        was_kept: The connection was open before.
    """

    def __init__(self, *, was_kept: bool) -> None:
        self.was_kept = was_kept
        super().__init__(was_kept)


class Progress:
    """How far one operation came, over all times that it was sent.

    Attributes:
        is_out: It was sent, and neither answered nor refused.
        has_place: A connection is its own.
    """

    __slots__ = ("has_place", "is_out")

    def __init__(self) -> None:
        self.is_out = self.has_place = False


class Errors(Struct, frozen=True):
    """What a connection raises.

    Attributes:
        refusals: The server answered with an error; the connection is as good as before.
        gone: The server is not there any more, or not yet.
        any: All of its errors.
    """

    refusals: tuple[type[Exception], ...]
    gone: tuple[type[Exception], ...]
    any: tuple[type[Exception], ...]

    def calls_for_a_new_one(self, lost: LostError) -> bool:
        """Whether the server closed a connection that nobody used: a new one may well do."""
        return lost.was_kept and isinstance(lost.__cause__, self.gone)


class Connection(Protocol):
    """A connection for threads."""

    def connect(self) -> None: ...
    def send_command(self, *args: Any, **kwargs: Any) -> None: ...
    def read_response(self) -> Any: ...
    def disconnect(self) -> None: ...


class AsyncConnection(Protocol):
    """The same for asyncio."""

    async def connect(self) -> None: ...
    async def send_command(self, *args: Any, **kwargs: Any) -> None: ...
    async def read_response(self) -> Any: ...
    async def disconnect(self, nowait: bool = False) -> None: ...


class _Threads:
    """What one process has; a forked child has nothing of its parent's."""

    def __init__(self, most: int) -> None:
        self.pid, self.places = os.getpid(), threading.BoundedSemaphore(most)
        self.idle: deque[Connection] = deque()


class Connections:
    """Connections for threads.

    Args:
        make: A new one, not connected yet.
        most: How many there are at once.
        timeout: Seconds to wait for one that is in use.
    """

    def __init__(
        self, make: Callable[[], Connection], errors: Errors, *, most: int, timeout: float
    ) -> None:
        self._make, self._errors, self._most, self._timeout = make, errors, most, timeout
        self._threads = _Threads(most)

    def exchange(self, progress: Progress, *parts: Any) -> Any:
        """Send one command; its answer. What was sent once may be sent a second time.

        Raises:
            NoPlaceError: None became free.
            LostError: No answer came.
        """
        mine = self._mine()
        if not mine.places.acquire(timeout=self._timeout):
            raise NoPlaceError
        try:
            try:
                return self._exchange(mine.idle, progress, parts)
            except LostError as lost:
                if not self._errors.calls_for_a_new_one(lost):
                    raise
            self.close()
            return self._exchange(mine.idle, progress, parts)
        finally:
            mine.places.release()

    def close(self) -> None:
        """Close those that are idle."""
        idle = self._mine().idle
        while True:
            try:
                idle.popleft().disconnect()
            except IndexError:  # asked for instead of looked for: threads share them
                return

    def _exchange(self, idle: deque[Connection], progress: Progress, parts: tuple[Any, ...]) -> Any:
        try:
            connection, was_kept = idle.pop(), True
        except IndexError:
            connection, was_kept = self._make(), False
        was_out, sends = progress.is_out, False
        try:
            if not was_kept:
                connection.connect()
            sends = progress.is_out = True
            connection.send_command(*parts)
            answer = connection.read_response()
        except self._errors.refusals:
            progress.is_out = was_out
            if sends:
                idle.append(connection)
            else:
                connection.disconnect()
            raise
        except self._errors.any as error:
            connection.disconnect()
            raise LostError(was_kept=was_kept) from error
        except BaseException:  # interrupted: what comes next on it is the answer to this
            connection.disconnect()
            raise
        idle.append(connection)
        return answer

    def _mine(self) -> _Threads:
        if self._threads.pid != os.getpid():
            self._threads = _Threads(self._most)
        return self._threads


class _Loop:
    """What one loop has."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self.places = places
        self.open: list[AsyncConnection] = []
        self.idle: list[AsyncConnection] = []
        self.end: AsyncGenerator[None, None] | None = None


class LoopConnections:
    """Connections of each asyncio loop, with the arguments of `Connections`."""

    def __init__(
        self, make: Callable[[], AsyncConnection], errors: Errors, *, most: int, timeout: float
    ) -> None:
        self._make, self._errors, self._most, self._timeout = make, errors, most, timeout
        self._loops: dict[tuple[int, asyncio.AbstractEventLoop], _Loop] = {}

    async def exchange(self, progress: Progress, *parts: Any) -> Any:
        """Send one command; its answer. All of it within the timeout.

        Raises:
            NoPlaceError: None became free.
            LostError: No answer came.
        """
        import asyncio

        mine = await self._mine()
        progress.has_place = False
        try:
            async with asyncio.timeout(self._timeout):
                await mine.places.acquire()
                progress.has_place = True
                try:
                    return await self._exchange(mine, progress, parts)
                except LostError as lost:
                    if not self._errors.calls_for_a_new_one(lost):
                        raise
                while mine.idle:
                    await self._drop(mine, mine.idle.pop())
                return await self._exchange(mine, progress, parts)
        except TimeoutError as error:
            if not progress.has_place:
                raise NoPlaceError from None
            raise LostError(was_kept=False) from error
        finally:
            if progress.has_place:
                mine.places.release()

    async def _exchange(self, mine: _Loop, progress: Progress, parts: tuple[Any, ...]) -> Any:
        was_kept = bool(mine.idle)
        connection = mine.idle.pop() if was_kept else self._make()
        was_out, sends = progress.is_out, False
        try:
            if not was_kept:
                mine.open.append(connection)
                await connection.connect()
            sends = progress.is_out = True
            await connection.send_command(*parts)
            answer = await connection.read_response()
        except self._errors.refusals:
            progress.is_out = was_out
            if sends:
                mine.idle.append(connection)
            else:
                await self._drop(mine, connection)
            raise
        except self._errors.any as error:
            await self._drop(mine, connection)
            raise LostError(was_kept=was_kept) from error
        except BaseException:  # cancelled: what comes next on it is the answer to this
            await self._drop(mine, connection)
            raise
        mine.idle.append(connection)
        return answer

    async def _drop(self, mine: _Loop, connection: AsyncConnection) -> None:
        mine.open.remove(connection)
        await connection.disconnect(nowait=True)

    async def _mine(self) -> _Loop:
        import asyncio

        loop = asyncio.get_running_loop()
        key = os.getpid(), loop
        mine = self._loops.get(key)
        if mine is None:
            for other in list(self._loops):
                # Those of a parent are kept: their end would touch its sockets.
                if other[0] == key[0] and other[1].is_closed():
                    self._loops.pop(other, None)
            mine = self._loops[key] = _Loop(asyncio.Semaphore(self._most))
            mine.end = self._until_the_end(key, mine)
            await anext(mine.end)
        return mine

    async def _until_the_end(
        self, key: tuple[int, asyncio.AbstractEventLoop], mine: _Loop
    ) -> AsyncGenerator[None, None]:
        import asyncio

        try:
            yield
        finally:
            self._loops.pop(key, None)
            # Waited for: TLS takes leave of the server before its socket is closed.
            ends = [connection.disconnect() for connection in mine.open]
            failed = await asyncio.gather(*ends, return_exceptions=True)
            await asyncio.sleep(0)  # transports close their sockets in the loop's next turns
            await asyncio.sleep(0)
            for error in failed:
                if isinstance(error, BaseException) and not isinstance(error, self._errors.any):
                    raise error
