"""How a budget stands: what is spent, what is held, what is left."""

from __future__ import annotations

from msgspec import Struct

from ..stores import Account, Amount, Balance

__all__ = ["NANO", "BudgetState", "left_of", "meters_of"]

NANO = 1_000_000_000


class BudgetState(Struct, frozen=True, kw_only=True):
    """One budget in one window, by meter: `dollars`, `tokens` and `requests`.

    Attributes:
        budget: Its name.
        tag: Whose account it is, where each tag has its own.
        limit: The meters that it limits.
        spent: What calls came to.
        held: What calls that are still out may come to.
        left: Neither spent nor held; below 0 where calls came to more than they could be
            expected to.
        resets_at: When the window ends, in Unix seconds; `None`: never.
        share: In a warning, which share of a limit is spent.
        meter: In a warning, of which.
    """

    budget: str
    tag: str | None
    limit: dict[str, float]
    spent: dict[str, float]
    held: dict[str, float]
    left: dict[str, float]
    resets_at: float | None
    share: float | None = None
    meter: str | None = None


def meters_of(amount: Amount) -> dict[str, float]:
    """An amount in a user's units."""
    return {
        "dollars": amount.nanodollars / NANO,
        "tokens": amount.tokens,
        "requests": amount.requests,
    }


def left_of(account: Account, balance: Balance) -> dict[str, float]:
    """What is neither spent nor held, of what is limited."""
    spent, held = balance.spent, balance.held
    left: dict[str, float] = {}
    if account.nanodollars is not None:
        left["dollars"] = (account.nanodollars - spent.nanodollars - held.nanodollars) / NANO
    if account.tokens is not None:
        left["tokens"] = account.tokens - spent.tokens - held.tokens
    if account.requests is not None:
        left["requests"] = account.requests - spent.requests - held.requests
    return left
