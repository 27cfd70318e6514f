"""One line of a ledger: a call that ended, what it used and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct

from ..catalog import cost, model
from ..report import CallReport
from ..wire import Usage

__all__ = ["Entry", "entry_of"]

_LONGEST = 200  # characters of a name that came from outside
_CUT = frozenset({"cut", "incomplete"})


class Entry(Struct, frozen=True, kw_only=True):
    """A call that ended. Neither text of a prompt nor a key is ever in it.

    Attributes:
        at: When it ended, in Unix seconds.
        tags: Of the scopes that it was in, the outermost first.
        provider: `None` when no adapter knows the endpoint.
        endpoint: Method and path.
        status: HTTP status of the last reply.
        error: Why it failed; `None` of a call that did not.
        attempts: How often it was sent.
        uncached: Input tokens computed and not kept; `None` when the provider told none, as
            in each count.
        cache_read: Input tokens read from the provider's prompt cache.
        cache_write: Input tokens written to it, by time to live.
        output: Output tokens, reasoning included.
        reasoning: The part of `output` spent on reasoning.
        partial: The reply was cut, so that the counts are the least that it used.
        inconsistent: The provider's counts contradict each other.
        cost: Dollars, exactly; `None` as long as something is missing, and where nothing was
            billed that anybody told of.
        at_least: Dollars of what is known.
        missing: What is not: a price, the counts of a reply that was cut.
        savings: Dollars that the prompt cache saved, net of what writing to it cost.
        request_id: What to quote to the provider.
    """

    at: float
    tags: tuple[str, ...] = ()
    provider: str | None = None
    model: str | None = None
    endpoint: str = ""
    status: int | None = None
    error: str | None = None
    attempts: int = 0
    uncached: int | None = None
    cache_read: int | None = None
    cache_write: Mapping[str, int] | None = None
    output: int | None = None
    reasoning: int | None = None
    partial: bool = False
    inconsistent: bool = False
    cost: Decimal | None = None
    at_least: Decimal | None = None
    missing: tuple[str, ...] = ()
    savings: Decimal | None = None
    request_id: str | None = None

    @property
    def day(self) -> str:
        """When it ended, as a day in UTC such as `2026-11-29`."""
        return datetime.fromtimestamp(self.at, UTC).date().isoformat()


def entry_of(report: CallReport, *, at: float) -> Entry:
    """What a ledger keeps of `report`, whose call ended `at` this time."""
    usage = report.usage or Usage()
    return Entry(
        at=at,
        provider=report.provider,
        model=_short(report.model),
        endpoint=_short(report.endpoint) or "",
        status=report.status,
        error=_short(report.error),
        attempts=len(report.attempts),
        uncached=usage.uncached,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        output=usage.output,
        reasoning=usage.reasoning,
        request_id=_short(report.request_id),
        **_told(report),
    )


def _told(report: CallReport) -> dict[str, Any]:
    """What the report says of its price, its tags and the quality of its counts."""
    usage, cache = report.usage, getattr(report, "cache", None)
    facts = model(report.model) if report.model and usage else None
    price, partial = cost(usage, facts), usage is not None and report.error in _CUT
    if usage is None:
        missing: tuple[str, ...] = ("usage",) if _may_be_billed(report) else ()
    else:
        missing = ("prices",) if price is None else price.missing
        missing += ("counts of a reply that was cut",) if partial else ()
    known = None if price is None else price.total
    savings = None if cache is None else cache.savings
    return {
        "tags": tuple(getattr(report, "tags", ())),
        "cost": None if missing else known,
        "at_least": known,
        "missing": missing,
        "savings": None if savings is None else Decimal(str(savings)),
        "partial": partial,
        "inconsistent": False,
    }


def _may_be_billed(report: CallReport) -> bool:
    """Whether the provider did, or may have done, work that it did not count for us."""
    if report.provider is None:
        return False
    if report.status is not None:
        return 200 <= report.status < 300
    return any(attempt.maybe_processed for attempt in report.attempts)


def _short(text: str | None) -> str | None:
    """A name from outside, which may be of any length and hold what UTF-8 cannot."""
    return None if text is None else text[:_LONGEST].encode("utf-8", "replace").decode()
