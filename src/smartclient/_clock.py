"""Time, as an argument: what a policy or a transport knows of it comes from a `Clock`."""

from __future__ import annotations

import sys
import time
from typing import Protocol

__all__ = ["Clock", "SystemClock", "under_trio"]


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Wall time, in Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait, blocking this thread."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Wait, in whichever async library runs."""
        ...


class SystemClock:
    """The machine's own time."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    async def sleep_async(self, seconds: float) -> None:
        if under_trio():
            await sys.modules["trio"].sleep(seconds)
            return
        import asyncio

        await asyncio.sleep(seconds)


def under_trio() -> bool:
    """Whether the running async library is trio; it is not imported to find out."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())
