"""The server's time: the machine's own, or one that a test turns by hand.

The methods have the names of `smartclient`'s clock, so that one object can serve both ends;
the server itself uses `now` and `sleep_async`.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from itertools import count
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...


class SystemClock:
    """The machine's own time."""

    now = staticmethod(time.time)
    sleep_async = staticmethod(asyncio.sleep)


class ManualClock:
    """A clock that moves when `advance` is called, from any thread.

    Args:
        at: Unix seconds it starts at.
        auto_advance: Whether a sleep moves the clock itself and ends at once. Without it a
            sleep lasts until `advance` has passed its end.
    """

    def __init__(self, at: float = 1_700_000_000.0, *, auto_advance: bool = False) -> None:
        self._at = at
        self._auto = auto_advance
        self._lock = threading.Lock()
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.AbstractEventLoop, asyncio.Event]] = []

    def now(self) -> float:
        return self._at

    monotonic = now

    @property
    def sleeping(self) -> int:
        """How many sleeps have not ended yet."""
        return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass, and wake who has slept enough.

        Raises:
            ValueError: `seconds` is negative.
        """
        if not seconds >= 0:
            raise ValueError(f"a clock never goes back: advance by at least 0 s, not {seconds}")
        with self._lock:
            self._at += seconds
            while self._sleepers and self._sleepers[0][0] <= self._at:
                _, _, loop, woken = heapq.heappop(self._sleepers)
                if not loop.is_closed():
                    loop.call_soon_threadsafe(woken.set)

    def sleep(self, seconds: float) -> None:
        """Move the clock at once: who blocks its thread is the one who turns the clock."""
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        if self._auto:
            self.advance(max(0.0, seconds))
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        with self._lock:
            end = self._at + seconds
            entry = (end, next(self._order), asyncio.get_running_loop(), woken)
            if end > self._at:
                heapq.heappush(self._sleepers, entry)
            else:
                woken.set()
        try:
            await woken.wait()
        finally:
            self._forget(entry)

    def _forget(self, entry: tuple[float, int, asyncio.AbstractEventLoop, asyncio.Event]) -> None:
        with self._lock:
            if entry in self._sleepers:
                self._sleepers.remove(entry)
                heapq.heapify(self._sleepers)
