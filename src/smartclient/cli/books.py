"""What a ledger adds up to, printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, TypeAlias

from ..ledger import Ledger, Total
from ..ledger.sums import BY, By
from .requests import UnreadableError
from .tables import as_csv, dollars, number, plain, table

__all__ = ["summed"]

_Groups: TypeAlias = "list[tuple[str, dict[str | None, Total]]]"
_NONE = "(none)"
_COLUMNS = (
    "by key calls failed attempts uncached cache_read cache_write output reasoning dollars "
    "dollars_at_least unpriced partial dollars_saved"
).split()


def summed(path: str, *, by: By | None, form: str) -> Iterator[str]:
    """The totals of the ledger in a file, by one of its columns or by each.

    Raises:
        UnreadableError: There is no ledger in it.
    """
    try:
        ledger = Ledger.read(path, size=0)
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UnreadableError(str(error)) from None
    groups: _Groups = [("all", {"all": ledger.total()})]
    groups += [(name, _sorted(ledger.totals(name))) for name in ([by] if by else BY)]
    if form == "text":
        return _as_text(groups, ledger)
    rows = [_told(name, key, one) for name, found in groups for key, one in found.items()]
    if form == "json":
        told = {"totals": rows, "unreadable": ledger.unreadable}
        return iter([json.dumps(told, indent=2, ensure_ascii=False)])
    cells = [["" if row[name] is None else str(row[name]) for name in _COLUMNS] for row in rows]
    return iter([as_csv(_COLUMNS, cells)])


def _sorted(found: dict[str | None, Total]) -> dict[str | None, Total]:
    """The dearest first."""
    return dict(sorted(found.items(), key=lambda pair: (-pair[1].cost, pair[0] or "")))


def _told(by: str, key: str | None, one: Total) -> dict[str, Any]:
    return {
        "by": by,
        "key": key,
        "calls": one.calls,
        "failed": one.failed,
        "attempts": one.attempts,
        "uncached": one.uncached,
        "cache_read": one.cache_read,
        "cache_write": sum(one.cache_write.values()),
        "output": one.output,
        "reasoning": one.reasoning,
        "dollars": None if one.unpriced else plain(one.cost),
        "dollars_at_least": plain(_known(one)),
        "unpriced": one.unpriced,
        "partial": one.partial,
        "dollars_saved": plain(one.savings),
    }


def _as_text(groups: _Groups, ledger: Ledger) -> Iterator[str]:
    for name, found in groups:
        columns = (name, "calls", "failed", "input", "from cache", "output", "cost", "unpriced")
        yield table(columns, [_row(key, one) for key, one in found.items()])
        yield ""
    whole = ledger.total()
    if whole.unpriced:
        count = number(whole.unpriced, "call")
        yield f"unpriced: {count} that may have cost more, and nobody knows how much."
    if whole.partial:
        yield f"cut: {number(whole.partial, 'call')}, of at least the tokens that are counted."
    if ledger.unreadable:
        yield f"passed over: {number(ledger.unreadable, 'line')} that cannot be read."
    if any(name == "tag" and len(found) > 1 for name, found in groups):
        yield "A call counts under each of its tags, so those may add up to more than all."


def _row(key: str | None, one: Total) -> list[str]:
    share = f"{one.cache_read / one.input_tokens:.0%}" if one.input_tokens else ""
    return [
        _NONE if key is None else key,
        f"{one.calls:,}",
        f"{one.failed:,}",
        f"{one.input_tokens:,}",
        share,
        f"{one.output:,}",
        _cost(one),
        f"{one.unpriced:,}",
    ]


def _cost(one: Total) -> str:
    """A sum that may be more than what is known says so."""
    known = _known(one)
    return f"{'>=' if one.unpriced and known is not None else ''}{dollars(known)}"


def _known(one: Total) -> Decimal | None:
    """`None` where nothing is known: 0 would say that it was free."""
    return None if one.unpriced and not one.cost else one.cost
