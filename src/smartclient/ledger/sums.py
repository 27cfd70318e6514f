"""What entries add up to, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Literal, NamedTuple

from msgspec import Struct

from ..catalog.exact import plus
from .entry import Entry

__all__ = ["BY", "OTHERS", "By", "Sums", "Total"]

By = Literal["tag", "model", "day", "provider"]
BY: tuple[By, ...] = ("tag", "model", "day", "provider")
OTHERS = "(others)"
"""The model and the tag of what came after there were too many of them."""

_MOST_GROUPS = 20_000
_NOTHING = Decimal(0)


class Total(Struct, frozen=True, kw_only=True):
    """What some calls came to.

    Attributes:
        calls: How many.
        failed: Those of them that failed.
        attempts: How often they were sent.
        uncached: Input tokens computed and not kept.
        cache_read: Input tokens read from the prompt cache.
        cache_write: Input tokens written to it, by time to live.
        output: Output tokens, reasoning included.
        reasoning: The part of `output` spent on reasoning.
        cost: Dollars of what is known, exactly: all of it where nothing is unpriced.
        unpriced: Calls that may have cost something that is not in `cost`.
        partial: Calls that were cut, of which the tokens are the least they can have been.
        savings: Dollars that the prompt cache saved, as far as reports told.
    """

    calls: int = 0
    failed: int = 0
    attempts: int = 0
    uncached: int = 0
    cache_read: int = 0
    cache_write: Mapping[str, int] = {}
    output: int = 0
    reasoning: int = 0
    cost: Decimal = _NOTHING
    unpriced: int = 0
    partial: int = 0
    savings: Decimal = _NOTHING

    @property
    def input_tokens(self) -> int:
        """All input tokens, cached or not."""
        return self.uncached + self.cache_read + sum(self.cache_write.values())


class _Group(NamedTuple):
    day: str
    provider: str | None
    model: str | None
    tags: tuple[str, ...]

    def keys(self, by: By) -> Iterable[str | None]:
        if by == "tag":
            return dict.fromkeys(self.tags) or (None,)  # a tag that is nested in itself counts once
        key: str | None = getattr(self, by)
        return (key,)


class _Sum:
    __slots__ = ("cost", "counts", "savings", "written")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.cost = self.savings = _NOTHING

    def add(self, entry: Entry) -> None:
        counts = self.counts
        counts["calls"] += 1
        counts["failed"] += entry.error is not None
        counts["attempts"] += entry.attempts
        counts["unpriced"] += bool(entry.missing)
        counts["partial"] += entry.partial
        for name in ("uncached", "cache_read", "output", "reasoning"):
            counts[name] += getattr(entry, name) or 0
        self.written.update(entry.cache_write or {})
        self.cost = plus(self.cost, entry.at_least or _NOTHING)
        self.savings = plus(self.savings, entry.savings or _NOTHING)

    def join(self, other: _Sum) -> None:
        self.counts.update(other.counts)
        self.written.update(other.written)
        self.cost = plus(self.cost, other.cost)
        self.savings = plus(self.savings, other.savings)

    def total(self) -> Total:
        written = dict(self.written)
        return Total(cost=self.cost, savings=self.savings, cache_write=written, **self.counts)


class Sums:
    """Adds entries up by day, provider, model and tags, in bounded memory.

    Not for several threads at once.
    """

    def __init__(self) -> None:
        self._groups: dict[_Group, _Sum] = {}

    def add(self, entry: Entry) -> None:
        """Count `entry` in."""
        key = _Group(entry.day, entry.provider, entry.model, entry.tags)
        if key not in self._groups and len(self._groups) >= _MOST_GROUPS:
            key = key._replace(model=OTHERS, tags=(OTHERS,))
        self._groups.setdefault(key, _Sum()).add(entry)

    def total(self) -> Total:
        """What all of them came to."""
        whole = _Sum()
        for one in self._groups.values():
            whole.join(one)
        return whole.total()

    def totals(self, by: By) -> dict[str | None, Total]:
        """What they came to by tag, model, day or provider.

        Raises:
            ValueError: By something else.
        """
        if by not in BY:
            raise ValueError(f"by must be one of {', '.join(BY)}, not {by!r}")
        found: dict[str | None, _Sum] = {}
        for group, one in self._groups.items():
            for key in group.keys(by):
                found.setdefault(key, _Sum()).join(one)
        return {key: one.total() for key, one in found.items()}
