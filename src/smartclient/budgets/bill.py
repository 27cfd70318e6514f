"""What a call came to: every attempt that is billed, as far as anybody knows.

`docs/how-to/set-budgets.md` has the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._call import Attempt
from ..stores import Amount
from ..wire import Delta, Usage
from .quote import Quote

__all__ = ["NOTHING", "Heard", "bill"]

NOTHING = Amount()


class Heard:
    """What the body of a call's last attempt has said.

    Attributes:
        usage: Counts so far; they are cumulative.
        is_final: They are all there.
        has_content: Output of the model came.
        has_failed: The provider reported an error in it.
    """

    __slots__ = ("_has_finished", "has_content", "has_failed", "is_final", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.is_final = self.has_content = self.has_failed = self._has_finished = False

    def note(self, delta: Delta) -> None:
        """Take in what an event, or a whole reply, says."""
        if delta.has_tokens:
            self.has_content = True
        if delta.finish is not None or delta.is_terminal:
            self._has_finished = True
        if delta.usage is not None:
            self.usage = delta.usage if self.usage is None else self.usage.updated(delta.usage)
            # The last counts come with the reason for the end, or after it.
            self.is_final = self._has_finished
        if delta.failure is not None:
            self.has_failed = True


def bill(attempts: Sequence[Attempt], quote: Quote, heard: Heard | None) -> Amount:
    """What all of `attempts` came to together.

    Args:
        heard: Of the last one's body; `None` where nobody got to read it.
    """
    if len(attempts) == 1:
        return _bill_of(attempts[0], quote, heard, is_last=True)
    total = NOTHING
    for attempt in attempts:
        is_last = attempt is attempts[-1]
        one = _bill_of(attempt, quote, heard if is_last else None, is_last=is_last)
        total = Amount(
            requests=max(total.requests, one.requests),
            tokens=total.tokens + one.tokens,
            nanodollars=total.nanodollars + one.nanodollars,
        )
    return total


def _bill_of(attempt: Attempt, quote: Quote, heard: Heard | None, *, is_last: bool) -> Amount:
    if not _is_billed(attempt, heard, is_last=is_last):
        return NOTHING
    if quote.input_tokens is None:
        return quote.amount  # a request, and nobody counts its tokens
    usage = attempt.usage if heard is None or heard.usage is None else heard.usage
    if usage is None:
        return quote.amount
    is_final = heard is not None and heard.is_final and usage.output is not None
    output = usage.output if is_final else max(usage.output or 0, quote.output_tokens)
    given = usage.input_tokens
    if given is None:
        usage, given = Usage(uncached=quote.input_tokens), quote.input_tokens
    output = output or 0
    cost = 0 if quote.tariff is None else quote.tariff.cost(usage, output)
    return Amount(requests=1, tokens=given + output, nanodollars=cost)


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
