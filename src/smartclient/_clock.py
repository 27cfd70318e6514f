"""Time, as an argument: what a policy or a transport knows of it comes from a `Clock`."""

from __future__ import annotations

import sys
import time
from math import inf
from typing import Protocol

__all__ = ["MOST_SECONDS", "Clock", "SystemClock", "checked_seconds", "shown", "under_trio"]

MOST_SECONDS = 1_000_000
"""The longest wait that may be asked for; `poll` knows none above 24 days."""


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


def checked_seconds(
    name: str,
    seconds: object,
    *,
    most: int = MOST_SECONDS,
    kind: str = "seconds",
    hint: str = "",
) -> float:
    """A time to wait for, from what a caller gives as `name`; a `kind` of value, as told.

    Raises:
        TypeError: It is no number.
        ValueError: It is not above 0, or longer than `most`; `hint` says what else to give.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{name} must be {kind}, not {type(seconds).__name__}")
    if not 0 < seconds <= most:
        what = f"{name} must be above 0 s and at most {most:,} s, not {shown(seconds)}"
        raise ValueError(f"{what}; {hint}" if hint else what)
    return float(seconds)


def shown(number: float) -> str:
    """A number as a message tells it, also one of more digits than a double has."""
    return f"{number:g}" if not abs(number) > 1e300 or abs(number) == inf else "more"
