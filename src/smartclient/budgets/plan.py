"""Which accounts a call counts in, in which stores: worked out once for all calls alike."""

from __future__ import annotations

from collections.abc import Sequence

from .._scope import Scope
from ..stores import Store
from .budget import Budget
from .counters import Counter

__all__ = ["Plan", "Plans"]

_MOST_PLANS = 1_024  # that are remembered; there is one for each tag


class Plan:
    """The counters of a call, the outermost first.

    Attributes:
        groups: They by store: those that share one are asked at once.
        is_priced: Some limit dollars.
        has_tokens: Some limit tokens.
        is_quick: No store has to be waited for.
        has_twins: Some may share an account.
    """

    __slots__ = ("counters", "groups", "has_tokens", "has_twins", "is_priced", "is_quick")

    def __init__(self, counters: tuple[Counter, ...]) -> None:
        groups: dict[int, tuple[Store, list[Counter]]] = {}
        for counter in counters:
            store = counter.budget.store
            assert store is not None  # made when none was given
            groups.setdefault(id(store), (store, []))[1].append(counter)
        self.counters = counters
        self.groups = tuple([(store, tuple(group)) for store, group in groups.values()])
        budgets = [counter.budget for counter in counters]
        self.is_priced = any(budget.dollars is not None for budget in budgets)
        self.has_tokens = any(budget.tokens is not None for budget in budgets)
        self.is_quick = all(store.is_quick for store, _ in self.groups)
        names = [(id(budget.store), budget.name) for budget in budgets]
        self.has_twins = len(set(names)) < len(names)


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
