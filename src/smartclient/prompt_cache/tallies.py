"""What the prompt cache did over many calls: by lane, by mark, by model, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from ..catalog.exact import plus
from ..wire import Usage
from .pending import Pending

__all__ = ["CacheSavings", "MarkUse", "Tally", "TallyKind"]

TallyKind: TypeAlias = Literal["models", "lanes", "marks"]

_KINDS: tuple[TallyKind, ...] = get_args(TallyKind)
_OTHERS = "(others)"


class MarkUse(Struct, frozen=True, kw_only=True):
    """What one mark did in one call.

    Attributes:
        path: Where it stands, such as `system[1]`.
        read: Tokens read up to it.
        written: Tokens written for it.
    """

    path: str
    read: int = 0
    written: int = 0


class Tally(Struct, kw_only=True):
    """Sums over calls.

    Attributes:
        calls: How many.
        input_tokens: All of their input, cached or not; for a mark, of what it read and wrote.
        read: Input tokens read from the cache.
        written: Input tokens written to it.
        wasted: Of these, tokens that expired, or were written again, before any was read;
            of a lane and a model only.
        savings: Dollars that the cache saved, of the calls where that is known.
        unpriced: Calls where it is not.
    """

    calls: int = 0
    input_tokens: int = 0
    read: int = 0
    written: int = 0
    wasted: int = 0
    savings: Decimal = Decimal(0)
    unpriced: int = 0

    @property
    def hit_ratio(self) -> float | None:
        """The share of all input tokens that was read; `None` without any.

        Of tokens, never a mean of the calls' own ratios: a short call counts little.
        """
        return self.read / self.input_tokens if self.input_tokens else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, `hit_ratio` too; dollars as a decimal string."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {**plain, "hit_ratio": self.hit_ratio}

    def _take(self, other: Tally) -> None:
        for name in ("calls", "input_tokens", "read", "written", "wasted", "unpriced"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.savings = plus(self.savings, other.savings)


class CacheSavings:
    """Adds up what the prompt cache did, for whoever wants to see it.

    Threads may share one.

    Args:
        max_names: Lanes, marks and models that are kept apart, of each; what is beyond, the
            longest unused first, is added up under `(others)`.
    """

    def __init__(self, *, max_names: int = 1000) -> None:
        if max_names < 1:
            raise ValueError(f"max_names must be at least 1, not {max_names}; 1000 is usual")
        self._max_names = max_names
        self._lock = Lock()
        self._tallies: dict[TallyKind, OrderedDict[str, Tally]] = {
            kind: OrderedDict() for kind in _KINDS
        }
        self._pending: OrderedDict[tuple[str, str], Pending] = OrderedDict()
        self._total = Tally()

    def add(
        self,
        usage: Usage | None,
        *,
        model: str,
        now: float,
        lane: str = "",
        savings: Decimal | None = None,
        ttl: float | Mapping[str, float] | None = None,
        marks: Sequence[MarkUse] = (),
    ) -> None:
        """Add one call.

        Args:
            usage: Its tokens; without them only the call is counted.
            model: Who gave it.
            now: When it began, in seconds of any clock.
            lane: Whose prompts share prefixes with it.
            savings: What `savings` says of it.
            ttl: Seconds that what it wrote is kept, by the name of the time to live where
                there are several; `None` for ever.
            marks: What each of its marks did.
        """
        one = _of_call(usage, savings)
        with self._lock:
            one.wasted = self._waste(usage, model, lane, now, ttl)
            self._total._take(one)
            self._tally("models", model)._take(one)
            self._tally("lanes", lane)._take(one)
            for mark in marks:
                used = Tally(
                    calls=1,
                    input_tokens=mark.read + mark.written,
                    read=mark.read,
                    written=mark.written,
                )
                self._tally("marks", mark.path)._take(used)

    @property
    def total(self) -> Tally:
        """All calls; a copy."""
        with self._lock:
            return _copy(self._total)

    def tallies(self, kind: TallyKind) -> dict[str, Tally]:
        """By name, the last used last; copies."""
        with self._lock:
            return {name: _copy(one) for name, one in self._tallies[kind].items()}

    def expire(self, now: float) -> None:
        """Count what nobody read before it expired, without waiting for its lane's next call."""
        with self._lock:
            for (model, lane), pending in self._pending.items():
                self._count_waste(model, lane, pending.expired(now))

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; dollars as decimal strings."""
        told: dict[str, Any] = {"total": self.total.to_dict()}
        for kind in _KINDS:
            told[kind] = {name: one.to_dict() for name, one in self.tallies(kind).items()}
        return told

    def table(self, *, lanes: int = 10) -> str:
        """For people: a line for each model, then for the lanes with most tokens.

        Args:
            lanes: How many of them.
        """
        models, by_lane = self.tallies("models"), self.tallies("lanes")
        largest = sorted(by_lane.items(), key=lambda named: -named[1].input_tokens)[:lanes]
        rows = [_HEAD, *(_row(name, one) for name, one in models.items())]
        if len(models) != 1:
            rows.append(_row("all models", self.total))
        if any(name for name in by_lane):
            rows += [_row(f"lane {name or '(none)'}", one) for name, one in largest]
        return _aligned(rows)

    def __str__(self) -> str:
        return self.table()

    def _tally(self, kind: TallyKind, name: str) -> Tally:
        """The one of that name, as the last used; the longest unused makes room."""
        named = self._tallies[kind]
        if name not in named:
            kept = [one for one in named if one != _OTHERS] if _OTHERS in named else named
            if len(kept) >= self._max_names:
                oldest = next(one for one in named if one != _OTHERS)
                gone = named.pop(oldest)
                named.setdefault(_OTHERS, Tally())._take(gone)
        found = named.setdefault(name, Tally())
        named.move_to_end(name)
        return found

    def _waste(
        self,
        usage: Usage | None,
        model: str,
        lane: str,
        now: float,
        ttl: float | Mapping[str, float] | None,
    ) -> int:
        """Tokens of earlier calls of this lane that are now known to be wasted."""
        if usage is None:
            return 0
        pending = self._pending.pop((model, lane), None) or Pending()
        start = usage.cache_read or 0
        pending.read(start)  # first: what was read had not expired, whatever the clock says
        wasted = pending.expired(now)
        for name, tokens in (usage.cache_write or {}).items():
            kept = ttl.get(name) if isinstance(ttl, Mapping) else ttl
            wasted += pending.write(start, tokens, None if kept is None else now + kept)
            start += tokens
        if pending:
            self._pending[model, lane] = pending
            if len(self._pending) > self._max_names:
                self._pending.popitem(last=False)  # what becomes of it is not known
        return wasted

    def _count_waste(self, model: str, lane: str, wasted: int) -> None:
        if wasted:
            one = Tally(wasted=wasted)
            self._total._take(one)
            self._tally("models", model)._take(one)
            self._tally("lanes", lane)._take(one)


def _of_call(usage: Usage | None, savings: Decimal | None) -> Tally:
    counts = usage or Usage()
    return Tally(
        calls=1,
        input_tokens=counts.input_tokens or 0,
        read=counts.cache_read or 0,
        written=sum((counts.cache_write or {}).values()),
        savings=savings if savings is not None else Decimal(0),
        unpriced=int(savings is None),
    )


def _copy(one: Tally) -> Tally:
    return msgspec.structs.replace(one)


_HEAD = ("", "calls", "input", "read", "hit", "written", "wasted", "saved")


def _row(name: str, one: Tally) -> tuple[str, ...]:
    ratio = "" if one.hit_ratio is None else f"{one.hit_ratio:.1%}"
    known = one.calls > one.unpriced
    sign = "-" if one.savings < 0 else ""
    saved = f"{sign}${abs(one.savings):,.4f}" if known else "unknown"
    if known and one.unpriced:
        saved += f" ({one.unpriced:,} unknown)"
    counts = (one.calls, one.input_tokens, one.read)
    more = (f"{one.written:,}", f"{one.wasted:,}", saved)
    return name, *(f"{count:,}" for count in counts), ratio, *more


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
