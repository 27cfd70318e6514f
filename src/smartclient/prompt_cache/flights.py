"""Calls that are writing a prefix just now, for others that begin with it to wait for.

A prefix can be read once the reply to the call that writes it has begun; calls sent before that
all pay for writing it (anthropic-sdk-python#1451).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence

from .._latch import Latch

__all__ = ["Flight", "Flights"]


class Flight:
    """One call on its way, and the prefixes that it writes.

    `land` is a plain call that never blocks for long: it may be made by a finalizer.
    """

    __slots__ = ("_flights", "keys", "landed")

    def __init__(self, flights: Flights, keys: Sequence[Hashable]) -> None:
        self._flights, self.keys = flights, keys
        self.landed = Latch()

    def land(self) -> None:
        """Let who waits go on: its reply has begun, or never will; safe to call twice."""
        self._flights.remove(self)
        self.landed.set()


class Flights:
    """The flights of one client; for any number of threads."""

    def __init__(self) -> None:
        # One that its own thread may take twice: a finalizer can land a flight at any place.
        self._lock = threading.RLock()
        self._leaders: dict[Hashable, Flight] = {}

    def __len__(self) -> int:
        return len(self._leaders)

    def board(self, wanted: Iterable[Hashable], written: Sequence[Hashable]) -> Flight | Latch:
        """Lead, or learn whom to wait for.

        Args:
            wanted: Prefixes that are worth waiting for, the longest first.
            written: Those that this call will write when it leads.

        Returns:
            The latch of the flight that writes one of `wanted`; else a flight of its own,
            which its caller must land.
        """
        with self._lock:
            for key in wanted:
                leader = self._leaders.get(key)
                if leader is not None:
                    return leader.landed
            flight = Flight(self, written)
            for key in written:
                self._leaders.setdefault(key, flight)
            return flight

    def remove(self, flight: Flight) -> None:
        with self._lock:
            for key in flight.keys:
                if self._leaders.get(key) is flight:
                    del self._leaders[key]
