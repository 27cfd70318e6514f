"""Windows of time, aligned to UTC: in which one lies, when it ends, and what it is called."""

from __future__ import annotations

from calendar import timegm
from math import inf
from time import gmtime
from typing import Literal, TypeAlias

__all__ = ["NAMES", "Per", "length_of", "named", "window_of"]

Per: TypeAlias = Literal["minute", "hour", "day", "month"] | float | None

_SECONDS = {"minute": 60.0, "hour": 3600.0, "day": 86_400.0}
NAMES = (*_SECONDS, "month")


def length_of(per: Per) -> float:
    """Seconds of the longest such window."""
    if per is None:
        return inf
    return (_SECONDS.get(per, 31 * 86_400.0)) if isinstance(per, str) else float(per)


def window_of(per: Per, now: float) -> tuple[float, float]:
    """Start and end of the window that `now` lies in, in Unix seconds."""
    if per is None:
        return -inf, inf
    if per == "month":
        year, month = gmtime(now)[:2]
        after = (year + 1, 1) if month == 12 else (year, month + 1)
        return float(timegm((year, month, 1, 0, 0, 0))), float(timegm((*after, 1, 0, 0, 0)))
    length = length_of(per)
    start = now // length * length
    return start, start + length


def named(per: Per) -> str:
    """Such as `a day`, for people."""
    if per is None:
        return "in all"
    if not isinstance(per, str):
        return _length(per)
    return _one(per)


def _one(name: str) -> str:
    return f"{'an' if name == 'hour' else 'a'} {name}"


def _length(seconds: float) -> str:
    """Such as `in 15 minutes`: in the longest unit of which it is a whole number."""
    for name, unit in reversed(_SECONDS.items()):
        if seconds and not seconds % unit:
            return f"in {seconds / unit:,.0f} {name}s" if seconds > unit else _one(name)
    return f"in {seconds:g} s"
