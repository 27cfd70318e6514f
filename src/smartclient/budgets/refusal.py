"""Why a call is not sent, with the numbers and what to do."""

from __future__ import annotations

from .._errors import BudgetExceededError, RefusedError
from ..stores import Account, Amount, Balance, StoreError
from ..stores.operations import Meter
from .budget import Budget
from .counters import Counter
from .state import NANO
from .windows import named

__all__ = ["exceeded", "not_counted", "unpriced"]

_UNITS = {"nanodollars": "dollars", "tokens": "tokens", "requests": "requests"}
_HINTS = {
    "nanodollars": "lower max_tokens, shorten the input, or raise the budget",
    "tokens": "lower max_tokens, shorten the input, or raise the budget",
    "requests": "raise the budget",
}


def exceeded(
    counter: Counter,
    account: Account,
    balance: Balance,
    meter: Meter,
    amount: Amount,
    *,
    now: float,
    waited: float = 0.0,
) -> BudgetExceededError:
    """The error for a call that has no room in `account`."""
    budget, unit = counter.budget, NANO if meter == "nanodollars" else 1
    limit, asked = getattr(account, meter) or 0, getattr(amount, meter)
    spent, held = getattr(balance.spent, meter), getattr(balance.held, meter)
    resets_at = counter.state(account, balance).resets_at
    whose = f" for tag {counter.tag!r}" if counter.tag is not None else ""
    allows = f"budget {budget.name!r} allows {_show(limit, meter)}{whose} {named(budget.per)}"
    hint, may_use = _HINTS[meter], f"this call may use {_show(asked, meter)}"
    if asked > limit:
        message = f"not sent: {may_use}, and {allows}, so it can never fit"
    else:
        waits = f" after {waited:,.1f} s" if waited else ""
        message = (
            f"not sent: {allows}, less {_show(spent, meter)} spent and {_show(held, meter)} held "
            f"by calls that are still out{waits}; {may_use}"
        )
        if resets_at is not None:
            hint += f", or wait {max(0.0, resets_at - now):,.0f} s until it renews"
    return BudgetExceededError(
        message,
        budget=budget.name,
        tag=counter.tag,
        meter=_UNITS[meter],
        limit=limit / unit,
        spent=spent / unit,
        held=held / unit,
        asked=asked / unit,
        resets_at=resets_at,
        hint=hint,
    )


def unpriced(budget: Budget, model: str | None) -> RefusedError:
    """The error for a call whose price nobody knows, where dollars are limited."""
    return _refused(
        f"not sent: budget {budget.name!r} limits dollars, and what {model or 'no model'!r} costs, "
        "in the way that the call asks for it, is not known; give its prices to the client, or "
        'count it as free by unknown_price="allow"',
        status=402,
    )


def not_counted(budget: Budget, error: StoreError) -> RefusedError:
    """The error for a call that nobody can count now."""
    return _refused(
        f"not sent: the store of budget {budget.name!r} cannot be reached ({error}); calls go on "
        'when it can, or uncounted with on_store_failure="allow"',
        status=503,
    )


def _refused(message: str, *, status: int) -> RefusedError:
    error = RefusedError(message)
    error.status = status
    return error


def _show(value: int, meter: Meter) -> str:
    if meter == "nanodollars":
        dollars = f"{value / NANO:,.9f}".rstrip("0")
        whole, _, part = dollars.partition(".")
        return f"${whole}.{part.ljust(2, '0')}"
    return f"{value:,} {_UNITS[meter] if value != 1 else _UNITS[meter][:-1]}"
