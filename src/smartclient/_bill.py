"""What the attempts of one call used and cost together, and what is not known of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from .wire import Usage

if TYPE_CHECKING:  # the report of a call is loaded with the client, and prices with the first
    from decimal import Decimal

    from .report import AttemptReport

__all__ = ["Bill", "bill_of", "dollars"]


class Bill(Struct, frozen=True, kw_only=True):
    """The sum over attempts.

    Attributes:
        usage: Of those that told any.
        total: Dollars, exactly; `None` as long as something is `missing`.
        at_least: Of what is known.
        missing: What is not.
    """

    usage: Usage | None = None
    total: Decimal | None = None
    at_least: Decimal | None = None
    missing: tuple[str, ...] = ()


def bill_of(attempts: Sequence[AttemptReport]) -> Bill:
    """Add up `attempts`: failed ones that told tokens, or may have been processed, too."""
    from .catalog.exact import ZERO, plus

    usage: Usage | None = None
    known: Decimal | None = None if any(one.usage is not None for one in attempts) else ZERO
    missing: list[str] = []
    for one in attempts:
        if one.usage is not None:
            usage = one.usage if usage is None else usage.plus(one.usage)
        of = f"attempt {one.number}: " if len(attempts) > 1 else ""
        missing += [f"{of}{what}" for what in _missing(one)]
        amount = None if one.priced is None else one.priced.at_least
        if amount is not None:
            known = amount if known is None else plus(known, amount)
    if missing and not known:
        known = None  # that nothing is known of is not that it costs nothing
    total = None if missing else known
    return Bill(usage=usage, total=total, at_least=known, missing=tuple(missing))


def _missing(attempt: AttemptReport) -> tuple[str, ...]:
    """What must be known to tell what `attempt` cost."""
    if attempt.usage is not None:
        if attempt.priced is None:
            return (f"prices of {attempt.model!r}" if attempt.model else "model",)
        return attempt.priced.missing
    if attempt.status is None:
        # Without an answer nobody can tell whether it was worked on, and so billed.
        return ("usage, if it was processed",) if attempt.maybe_processed else ()
    return ("usage",) if 200 <= attempt.status < 300 else ()  # no provider bills a refusal


def dollars(amount: float) -> str:
    """An amount as it is shown: four decimals, or two digits of what is smaller than that."""
    if not amount:
        return "$0"
    sign, size = "-" if amount < 0 else "", abs(amount)
    decimals = 4 if size >= 0.001 else 1 - int(f"{size:e}".partition("e")[2])
    return f"{sign}${size:,.{decimals}f}"
