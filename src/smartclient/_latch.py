"""A latch: set once, from anywhere, and waited for by threads and by loops alike."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable

from ._clock import under_trio

__all__ = ["Latch"]


class Latch:
    """Closed until somebody sets it; then open for good.

    `set` is a plain call that never blocks and takes no lock, so that a finalizer, which may
    run anywhere, can make it.
    """

    __slots__ = ("_is_set", "_wakers")

    def __init__(self) -> None:
        self._is_set = False
        self._wakers: deque[Callable[[], None]] = deque()

    @property
    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Let everybody who waits go on; safe to call twice."""
        self._is_set = True
        while True:
            try:
                wake = self._wakers.popleft()
            except IndexError:  # asked for instead of looked for: others may set it too
                return
            wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until it is set, at most `timeout` seconds; whether it is."""
        if self._is_set:
            return True
        event = threading.Event()
        self._wakers.append(event.set)
        try:
            # Looked at again: who sets it now may have seen no waker.
            return self._is_set or event.wait(timeout) or self._is_set
        finally:
            self._forget(event.set)

    async def wait_async(self, timeout: float | None = None) -> bool:
        """The same for whichever async library runs."""
        if self._is_set:
            return True
        return await (self._wait_trio(timeout) if under_trio() else self._wait_asyncio(timeout))

    async def _wait_asyncio(self, timeout: float | None) -> bool:
        import asyncio

        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def open_it() -> None:
            if not woken.done():
                woken.set_result(None)

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(open_it)

        self._wakers.append(wake)
        try:
            if not self._is_set:
                await asyncio.wait([woken], timeout=timeout)
            return self._is_set
        finally:
            self._forget(wake)

    async def _wait_trio(self, timeout: float | None) -> bool:
        trio = sys.modules["trio"]
        event, token = trio.Event(), trio.lowlevel.current_trio_token()

        def wake() -> None:
            try:
                token.run_sync_soon(event.set)
            except trio.RunFinishedError:  # who waited there is gone
                return

        self._wakers.append(wake)
        try:
            if not self._is_set:
                with trio.move_on_after(timeout if timeout is not None else float("inf")):
                    await event.wait()
            return self._is_set
        finally:
            self._forget(wake)

    def _forget(self, wake: Callable[[], None]) -> None:
        try:
            self._wakers.remove(wake)
        except ValueError:  # taken by whoever set it
            return
