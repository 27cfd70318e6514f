"""The server's time: the machine's own, or one that a test turns by hand.

The methods have the names of `smartclient`'s clock, so that one object can serve both ends;
the server itself uses `now` and `sleep_async`.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Protocol, TypeAlias, runtime_checkable

__all__ = ["Clock", "ManualClock", "SystemClock", "TurnedClock"]


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...


@runtime_checkable
class TurnedClock(Clock, Protocol):
    """A clock that a test turns: the one below, or that of `smartclient.testing`."""

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...


class SystemClock:
    """The machine's own time."""

    now = staticmethod(time.time)
    sleep_async = staticmethod(asyncio.sleep)


_Sleeper: TypeAlias = tuple[float, int, Callable[[], object]]


class ManualClock:
    """A clock that moves when `advance` is called, from any thread.

    A client of this project can be given the same object. Its blocking sleeps move the clock
    at once, because nobody else could; `sleep_async`, on either end, follows `auto_advance`.

    Args:
        at: Unix seconds it starts at, for both of its times.
        auto_advance: Whether a `sleep_async` moves the clock itself and ends at once. Without
            it a sleep lasts until `advance` has passed its end.
    """

    def __init__(self, at: float = 1_700_000_000.0, *, auto_advance: bool = False) -> None:
        self._at = at
        self._auto = auto_advance
        self._changed = threading.Condition()  # guards what follows; told of every new sleep
        self._order = count()
        self._sleepers: list[_Sleeper] = []

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
            ValueError: `seconds` is negative or not finite.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(
                f"a clock never goes back: advance by at least 0 s and finite, not {seconds}"
            )
        with self._changed:
            self._at += seconds
            while self._sleepers and self._sleepers[0][0] <= self._at:
                _, _, wake = heapq.heappop(self._sleepers)
                with contextlib.suppress(RuntimeError):  # whose loop has ended, sleeps no more
                    wake()

    def wait_for_sleepers(self, num: int = 1, *, patience: float = 5.0) -> None:
        """Block until `num` sleeps have not ended yet, so that `advance` cannot come too early.

        What the server wrote before its sleep has then been sent. Not for the thread of the
        loop that is to sleep.

        Args:
            patience: Longest time to wait, in seconds of real time.

        Raises:
            TimeoutError: There were fewer all the time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._sleepers) >= num, patience):
                raise TimeoutError(
                    f"{len(self._sleepers)} instead of {num} slept on the clock after "
                    f"{patience:g} s of real time; is there an answer or a retry that waits?"
                )

    def sleep(self, seconds: float) -> None:
        """Move the clock at once: who blocks its thread is the one who turns the clock."""
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        wait, wake = _alarm()
        with self._changed:
            sleeper = self._at + seconds, next(self._order), wake
            heapq.heappush(self._sleepers, sleeper)
            self._changed.notify_all()
        try:
            self.advance(max(0.0, seconds) if self._auto else 0.0)
            await wait()
        finally:
            self._forget(sleeper)

    def _forget(self, sleeper: _Sleeper) -> None:
        with self._changed:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                heapq.heapify(self._sleepers)


def _alarm() -> tuple[Callable[[], Awaitable[object]], Callable[[], object]]:
    """What waits in the async library that runs, and what ends that from any thread."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        rung = trio.Event()
        token = trio.lowlevel.current_trio_token()
        return rung.wait, partial(token.run_sync_soon, rung.set)
    event = asyncio.Event()
    return event.wait, partial(asyncio.get_running_loop().call_soon_threadsafe, event.set)
