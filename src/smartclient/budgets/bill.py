"""What a call came to: every attempt that is billed, as far as anybody knows.

`docs/how-to/set-budgets.md` has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from .._call import Attempt
from ..stores import Amount
from ..stores.sums import MOST
from ..wire import Delta, Usage
from .quote import Quote, amount_of
from .tariff import Tariff

__all__ = ["NOTHING", "Heard", "TariffOf", "bill"]

NOTHING = Amount()
TariffOf: TypeAlias = Callable[[Attempt], Tariff | None]


class Heard:
    """What the body of a call's last attempt has said, beside its usage.

    Attributes:
        has_content: Output of the model came.
        has_failed: The provider reported an error in it.
    """

    __slots__ = ("has_content", "has_failed")

    def __init__(self) -> None:
        self.has_content = self.has_failed = False

    def note(self, delta: Delta) -> None:
        """Take in what an event, or a whole reply, says."""
        if delta.has_tokens:
            self.has_content = True
        if delta.failure is not None:
            self.has_failed = True


def bill(
    attempts: Sequence[Attempt], quote: Quote, heard: Heard | None, tariff_of: TariffOf
) -> Amount:
    """What all of `attempts` came to together.

    Args:
        heard: Of the last one's body; `None` where nobody got to read it.
        tariff_of: Finds what an attempt is billed by, once its reply says how it was served.
    """
    if len(attempts) == 1:
        return _bill_of(attempts[0], quote, heard, tariff_of, is_last=True)
    total = NOTHING
    for attempt in attempts:
        is_last = attempt is attempts[-1]
        one = _bill_of(attempt, quote, heard if is_last else None, tariff_of, is_last=is_last)
        total = Amount(
            requests=max(total.requests, one.requests),
            tokens=min(total.tokens + one.tokens, MOST),
            nanodollars=min(total.nanodollars + one.nanodollars, MOST),
        )
    return total


def _bill_of(
    attempt: Attempt, quote: Quote, heard: Heard | None, tariff_of: TariffOf, *, is_last: bool
) -> Amount:
    if not _is_billed(attempt, heard, is_last=is_last):
        return NOTHING
    usage = attempt.usage
    if quote.input_tokens is None or usage is None or usage.inconsistent is not None:
        return quote.amount  # nobody counts its tokens, or nobody knows them
    output = usage.output or 0
    if usage.output is None or not usage.is_final:
        output = max(output, quote.output_tokens)
    given = usage.input_tokens
    if given is None:
        usage, given = Usage(uncached=quote.input_tokens), quote.input_tokens
    tariff = quote.tariff
    if tariff is not None and attempt.served is not None:
        tariff = tariff_of(attempt) or tariff
    cost = 0 if tariff is None else tariff.cost(usage, output)
    return amount_of(given + output, cost)


def _is_billed(attempt: Attempt, heard: Heard | None, *, is_last: bool) -> bool:
    """Whether the provider may have charged for it."""
    if attempt.status is None:
        # Cancelled attempts have no error: what was written then may have been worked on.
        return attempt.maybe_processed or (
            attempt.error is None and attempt.timeline.send is not None
        )
    if attempt.status >= 300:
        return False
    if not is_last:
        # Sent again in spite of its 200: it broke off, or its first event was an error.
        return attempt.maybe_processed
    return heard is None or not heard.has_failed or heard.has_content
