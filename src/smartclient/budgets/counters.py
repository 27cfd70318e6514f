"""A budget's accounts: one for each window and tag, with who waits there and what was warned."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace

from .. import _observers
from ..stores import Account, Balance
from .line import Line
from .state import BudgetState, left_of, meters_of
from .windows import length_of, named, window_of

if TYPE_CHECKING:
    from .budget import Budget

__all__ = ["Book", "Counter"]

_MOST_TAGS = 10_000  # whose accounts are remembered; they may be users
_GRACE = 900.0
"""Seconds that an account outlives its window: calls that began in it end later. What ends later
still is booked nowhere, and nobody would ask for it; each minute of each tag has an account."""


class Counter:
    """One budget for one tag.

    Attributes:
        line: Who waits for it in this process.
    """

    __slots__ = ("_due", "_prefix", "_present", "_suffix", "_warned", "budget", "line", "tag")

    def __init__(self, budget: Budget, tag: str | None) -> None:
        self.budget, self.tag, self.line = budget, tag, Line()
        window = "month" if budget.per == "month" else f"{length_of(budget.per):g}s"
        self._prefix = _quoted(budget.name)
        if budget.per is not None:
            self._prefix += f"/{window}"
        self._suffix = "" if tag is None else f"#{_quoted(tag)}"
        self._present = (1.0, 0.0, Account(""))  # a window that holds no time
        self._warned: tuple[str, float] = ("", 0.0)
        first = min(budget.warn_at, default=inf)
        self._due = tuple(
            [
                inf if most is None else first * most
                for most in (budget.nanodollars, budget.tokens, budget.requests)
            ]
        )

    def account_at(self, now: float) -> Account:
        """Its account in the window of `now`."""
        return self.window_at(now)[2]

    def window_at(self, now: float) -> tuple[float, float, Account]:
        """The window of `now`, from when until when, and the account in it."""
        present = self._present
        if present[0] <= now < present[1]:
            return present
        budget = self.budget
        start, end = window_of(budget.per, now)
        at = "" if budget.per is None else f"@{start:.0f}"
        account = Account(
            f"{self._prefix}{at}{self._suffix}",
            budget.requests,
            budget.tokens,
            budget.nanodollars,
            None if budget.per is None else end + _GRACE,
        )
        present = self._present = (start, end, account)  # in one step: threads share it
        return present

    def state(self, account: Account, balance: Balance) -> BudgetState:
        """How `account` stands."""
        limit: dict[str, float] = left_of(account, Balance())
        end = None if account.expires is None else account.expires - _GRACE
        return BudgetState(
            budget=self.budget.name,
            tag=self.tag,
            limit=limit,
            spent=meters_of(balance.spent),
            held=meters_of(balance.held),
            left=left_of(account, balance),
            resets_at=end,
        )

    def is_due(self, balance: Balance) -> bool:
        """Whether enough is spent that somebody may have to be warned."""
        spent, (dollars, tokens, requests) = balance.spent, self._due
        return spent.nanodollars >= dollars or spent.tokens >= tokens or spent.requests >= requests

    def warn(self, account: Account, balance: Balance) -> None:
        """Tell of the highest share that is newly reached, once in each window."""
        shares = self.budget.warn_at
        reached, meter = _reached(account, balance)
        if not shares or reached < shares[0]:
            return
        key, before = self._warned
        if key != account.key:
            before = 0.0
        crossed = max((share for share in shares if before < share <= reached), default=None)
        if crossed is None:
            return
        self._warned = (account.key, crossed)
        state = replace(self.state(account, balance), share=reached, meter=meter)
        if self.budget.on_warning is None:
            _log(state, self.budget)
            return
        try:
            self.budget.on_warning(state)
        except Exception:  # an observer must not break the call that it observes
            _observers.failed("on_warning failed", self.budget.on_warning)


class Book:
    """The counters of one budget, by tag."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._whole = Counter(budget, None)
        self._by_tag: dict[str, Counter] = {}

    def counter(self, tag: str | None) -> Counter:
        """The one for `tag`; of a budget that counts all tags together, the only one."""
        if tag is None or not self._budget.per_tag:
            return self._whole
        found = self._by_tag.get(tag)
        if found is None:
            if len(self._by_tag) >= _MOST_TAGS:
                for name, counter in list(self._by_tag.items()):
                    if not counter.line.tickets:
                        self._by_tag.pop(name, None)
            found = self._by_tag.setdefault(tag, Counter(self._budget, tag))
        return found

    def state(self, tag: str | None, account: Account, balance: Balance) -> BudgetState:
        return self.counter(tag).state(account, balance)


def _quoted(name: str) -> str:
    # Lone surrogates too: a tag may be a user's name, or a file's.
    return quote(name, safe=" ", errors="surrogatepass")


def _reached(account: Account, balance: Balance) -> tuple[float, str]:
    """The largest share of a limit that is spent, and of which."""
    spent = balance.spent
    reached, meter = 0.0, ""
    if account.nanodollars is not None:
        reached, meter = spent.nanodollars / account.nanodollars, "dollars"
    if account.tokens is not None and spent.tokens / account.tokens > reached:
        reached, meter = spent.tokens / account.tokens, "tokens"
    if account.requests is not None and spent.requests / account.requests > reached:
        reached, meter = spent.requests / account.requests, "requests"
    return reached, meter


def _log(state: BudgetState, budget: Budget) -> None:
    meter = state.meter or ""
    whose = f" of tag {state.tag!r}" if state.tag is not None else ""
    _observers.warned(
        "budget %r%s has spent %.0f %% of its %s: %s of %s %s",
        state.budget,
        whose,
        100.0 * (state.share or 0.0),
        meter,
        f"{state.spent[meter]:,g}",
        f"{state.limit[meter]:,g}",
        named(budget.per),
    )
