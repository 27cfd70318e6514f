"""One line of a ledger: a call that ended, what it used and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct

from .._bill import bill_of
from ..report import CallReport
from ..wire import Usage

__all__ = ["Entry", "entry_of"]

_LONGEST = 200  # characters of a name that came from outside


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
        cost: Dollars, exactly; `None` as long as something is missing.
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
    bill, usage, cache = bill_of(report.attempts), report.usage, report.cache
    savings = None if cache is None else cache.savings
    return {
        "tags": report.tags,
        "cost": bill.total,
        "at_least": bill.at_least,
        "missing": bill.missing,
        "savings": None if savings is None else Decimal(str(savings)),
        "partial": usage is not None and not usage.is_final,
        "inconsistent": usage is not None and usage.inconsistent is not None,
    }


def _short(text: str | None) -> str | None:
    """A name from outside, which may be of any length and hold what UTF-8 cannot."""
    return None if text is None else text[:_LONGEST].encode("utf-8", "replace").decode()
