"""Sums of money without rounding, whatever precision the program has set for itself."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation

__all__ = ["ZERO", "minus", "per_million", "plus", "times"]

ZERO = Decimal(0)

# More digits than prices, factors and counts can fill together; should they ever, it raises.
_EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])

times = _EXACT.multiply
plus = _EXACT.add
minus = _EXACT.subtract


def per_million(amount: Decimal) -> Decimal:
    """A millionth of `amount`."""
    return amount.scaleb(-6, _EXACT)
