"""A latch: set once, from anywhere, and waited for by threads and by loops alike."""

from __future__ import annotations

import sys
from _thread import TIMEOUT_MAX, allocate_lock
from collections import deque
from collections.abc import Callable
from math import inf

from ._clock import under_trio

__all__ = ["Latch"]


class Latch:
    """Closed until somebody sets it; then open for good.

    `set` is a plain call that never blocks and takes no lock, so that a finalizer, which may
    run anywhere, can make it: also in the middle of a wait, in the thread that waits.
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
        # Not an Event, whose `set` takes a lock that this very thread may hold.
        gate = allocate_lock()
        gate.acquire()
        self._wakers.append(gate.release)
        seconds = -1.0 if timeout is None else min(max(timeout, 0.0), TIMEOUT_MAX)
        try:
            # Looked at again: who sets it now may have seen no waker.
            return self._is_set or gate.acquire(timeout=seconds) or self._is_set
        finally:
            self._forget(gate.release)

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
            try:
                loop.call_soon_threadsafe(open_it)
            except RuntimeError:  # it is closed, and so gone is who waited there
                return

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
                with trio.move_on_after(max(timeout, 0.0) if timeout is not None else inf):
                    await event.wait()
            return self._is_set
        finally:
            self._forget(wake)

    def _forget(self, wake: Callable[[], None]) -> None:
        try:
            self._wakers.remove(wake)
        except ValueError:  # taken by whoever set it
            return
