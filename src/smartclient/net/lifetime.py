"""When a connection is too old: by its age, by what it carried, by how servers end idle ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Protocol

from .options import REAL

if TYPE_CHECKING:
    from .options import NetOptions

__all__ = ["LEAST_IDLE", "REMEMBERED", "Aging", "Held", "Lifetime", "holders"]

LEAST_IDLE = 1.0
"""Seconds of idleness; what closes sooner tells nothing about a server's limit."""

REMEMBERED = 600.0
"""Seconds for which it is remembered that a server closes early."""

_MARGIN = 0.8  # of the idleness that was too long


class Lifetime:
    """How long idle connections of one way live, as their server was seen to end them."""

    __slots__ = ("_bound", "_until")

    def __init__(self) -> None:
        self._bound: float | None = None
        self._until = 0.0

    def ended(self, idle: float, now: float) -> None:
        """The server closed a connection that had lain idle for `idle` seconds."""
        if idle < LEAST_IDLE:
            return
        bound = max(LEAST_IDLE, idle * _MARGIN)
        known = self.bound(now, None)
        self._bound = bound if known is None else min(bound, known)
        self._until = now + REMEMBERED

    def bound(self, now: float, own: float | None) -> float | None:
        """Seconds for which a connection may lie idle: `own`, or what was learned."""
        if self._bound is None or now >= self._until:
            return own
        return self._bound if own is None else min(own, self._bound)

    def until(self, now: float, own: float | None) -> float | None:
        """The moment up to which it may; `None`: for ever."""
        bound = self.bound(now, own)
        return None if bound is None else now + bound


class Aging:
    """What a connection knows of its life, in real time.

    Attributes:
        num_exchanges: How many calls it has carried.
        idle_since: When it was last released; 0 before.
        held: Method, target and start of the call that it carries.
    """

    __slots__ = ("_most_exchanges", "_worn_at", "held", "idle_since", "num_exchanges")

    def __init__(self) -> None:
        self.num_exchanges = 0
        self.idle_since = 0.0
        self.held: tuple[str, str, float] | None = None
        self._worn_at: float | None = None
        self._most_exchanges: int | None = None

    @property
    def is_reused(self) -> bool:
        """Whether it was open before the call that it is about to carry."""
        return self.num_exchanges > 0 or self.idle_since > 0.0

    def begin_life(self, options: NetOptions) -> None:
        """It was opened just now."""
        self._worn_at = None if options.max_age is None else REAL() + options.max_age
        self._most_exchanges = options.max_requests

    def is_worn(self, now: float) -> bool:
        """Whether it has carried enough: a new one looks the address up anew."""
        if self._most_exchanges is not None and self.num_exchanges >= self._most_exchanges:
            return True
        return self._worn_at is not None and now >= self._worn_at

    def idle_until(self, expires: float | None) -> float | None:
        """`expires`, or the end of its life where that comes before: it may not lie past that."""
        if self._worn_at is None:
            return expires
        return self._worn_at if expires is None else min(expires, self._worn_at)


class Held(Hashable, Protocol):
    """What a call holds; `held` is as `Aging` has it."""

    held: tuple[str, str, float] | None


def holders(active: Iterable[Held], most: int = 3) -> list[str]:
    """The calls that have held these for longest, each as an error names it."""
    held = sorted((one.held for one in active if one.held is not None), key=lambda call: call[2])
    now = REAL()
    return [
        f"{method} {target.partition('?')[0]} for {now - since:.1f} s"
        for method, target, since in held[:most]
    ]
