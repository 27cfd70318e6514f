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


_COUNTS = "calls failed attempts uncached cache_read output reasoning unpriced partial".split()


class _Sum:
    __slots__ = (*_COUNTS, "cache_write", "cost", "savings")

    def __init__(self) -> None:
        self.calls = self.failed = self.attempts = self.unpriced = self.partial = 0
        self.uncached = self.cache_read = self.output = self.reasoning = 0
        self.cache_write: Counter[str] = Counter()
        self.cost = self.savings = _NOTHING

    def add(self, entry: Entry) -> None:
        self.calls += 1
        self.failed += entry.error is not None
        self.attempts += entry.attempts
        self.unpriced += bool(entry.missing)
        self.partial += entry.partial
        self.uncached += entry.uncached or 0
        self.cache_read += entry.cache_read or 0
        self.output += entry.output or 0
        self.reasoning += entry.reasoning or 0
        if entry.cache_write:
            self.cache_write.update(entry.cache_write)
        if entry.at_least:
            self.cost = plus(self.cost, entry.at_least)
        if entry.savings:
            self.savings = plus(self.savings, entry.savings)

    def join(self, other: _Sum) -> None:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cache_write.update(other.cache_write)
        self.cost = plus(self.cost, other.cost)
        self.savings = plus(self.savings, other.savings)

    def total(self) -> Total:
        counts = {name: getattr(self, name) for name in _COUNTS}
        written = dict(self.cache_write)
        return Total(cost=self.cost, savings=self.savings, cache_write=written, **counts)


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
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = _Sum()
        found.add(entry)

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
