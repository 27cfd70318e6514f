"""How long it takes until a prompt's beginning is sent again: a histogram that forgets."""

from __future__ import annotations

from bisect import bisect_right

__all__ = ["Gaps"]

# Every time to live of a provider is a bound, so that a share of gaps within one is exact.
_BOUNDS = (15.0, 60.0, 150.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0, 43_200.0, 86_400.0)
_MOST = 32
"""Gaps after which all of them count half: what was is less true than what is."""


class Gaps:
    """Gaps between the starts of two requests that share a prefix, in seconds."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts: list[float] | None = None  # most prefixes are seen once
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Note one gap."""
        if self._counts is None:
            self._counts = [0.0] * (len(_BOUNDS) + 1)
        if self.total >= _MOST:
            self._counts = [count / 2.0 for count in self._counts]
            self.total = sum(self._counts)
        self._counts[bisect_right(_BOUNDS, seconds)] += 1.0
        self.total += 1.0

    def within(self, seconds: float, *, prior: float) -> float:
        """Chance that the next gap is shorter than `seconds`.

        Args:
            prior: The chance where nothing is known; it weighs as much as one gap.
        """
        if self._counts is None:
            return prior
        shorter = sum(self._counts[: bisect_right(_BOUNDS, seconds)])
        return (shorter + prior) / (self.total + 1.0)
