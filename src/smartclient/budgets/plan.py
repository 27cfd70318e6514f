"""Which accounts a call counts in, in which stores: worked out once for all calls alike."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from .._scope import Scope
from ..stores import Account, Store
from .budget import Budget
from .counters import Counter

__all__ = ["Part", "Plan", "Plans"]

_MOST_PLANS = 1_024  # that are remembered; there is one for each tag


class Part(Struct, frozen=True, gc=False):
    """What a call counts in of one store: that is asked in one step."""

    store: Store
    counters: tuple[Counter, ...]
    accounts: tuple[Account, ...]


class Plan:
    """What the calls alike count in, the outermost first.

    Attributes:
        is_priced: Some limit dollars.
        has_tokens: Some limit tokens.
        is_quick: No store has to be waited for.
    """

    __slots__ = ("_groups", "_present", "counters", "has_tokens", "is_priced", "is_quick")

    def __init__(self, counters: tuple[Counter, ...]) -> None:
        groups: dict[int, tuple[Store, list[Counter]]] = {}
        for counter in counters:
            store = counter.budget.store
            assert store is not None  # made when none was given
            groups.setdefault(id(store), (store, []))[1].append(counter)
        self.counters, self._groups = counters, tuple(groups.values())
        budgets = [counter.budget for counter in counters]
        self.is_priced = any(budget.dollars is not None for budget in budgets)
        self.has_tokens = any(budget.tokens is not None for budget in budgets)
        self.is_quick = all(store.is_quick for store, _ in self._groups)
        self._present: tuple[float, float, tuple[Part, ...]] = (1.0, 0.0, ())  # holds no time

    def parts_at(self, now: float) -> tuple[Part, ...]:
        """The parts of a call that begins at `now`, one for each store."""
        start, end, parts = self._present
        if start <= now < end:
            return parts
        parts = tuple([_part(store, group, now) for store, group in self._groups])
        windows = [counter.window_at(now) for counter in self.counters]
        start, end = max(one[0] for one in windows), min(one[1] for one in windows)
        self._present = (start, end, parts)  # in one step: threads share it
        return parts


def _part(store: Store, counters: Sequence[Counter], now: float) -> Part:
    """Budgets of one name share an account: a call counts in it once, at the lower limit."""
    found: dict[str, tuple[Counter, Account]] = {}
    for counter in counters:
        account = counter.account_at(now)
        first, same = found.get(account.key, (counter, account))
        if same is not account:
            account = Account(
                account.key,
                _lower(same.requests, account.requests),
                _lower(same.tokens, account.tokens),
                _lower(same.nanodollars, account.nanodollars),
                account.expires,
            )
        found[account.key] = (first, account)
    return Part(
        store,
        tuple([counter for counter, _ in found.values()]),
        tuple([account for _, account in found.values()]),
    )


def _lower(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


class Plans:
    """The plans of one client's calls.

    Args:
        budgets: The client's own.
    """

    def __init__(self, budgets: Sequence[Budget]) -> None:
        self._budgets = tuple(budgets)
        self._plans: dict[tuple[Counter, ...], Plan] = {}
        self._own = Plan(tuple([budget.book.counter(None) for budget in budgets]))

    def of(self, scope: Scope | None) -> Plan:
        """The one for a call in `scope`."""
        if scope is None:
            return self._own
        tag = scope.tags[-1] if scope.tags else None
        found = [budget.book.counter(tag) for budget in self._budgets]
        for budget, own in scope.budgets:
            counter = budget.book.counter(own)
            if counter not in found:  # around the call twice, it counts once
                found.append(counter)
        counters = tuple(found)
        plan = self._plans.get(counters)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[counters] = Plan(counters)
        return plan
