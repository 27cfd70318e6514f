"""Tells who waits for room that something was let go here."""

from __future__ import annotations

from .._latch import Latch

__all__ = ["Changes"]


class Changes:
    """A latch for each time that something is let go."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = Latch()

    def next(self) -> Latch:
        """Set the next time."""
        return self._next

    def tell(self) -> None:
        now, self._next = self._next, Latch()
        now.set()
