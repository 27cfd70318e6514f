"""Which accounts a call counts in."""

from __future__ import annotations

from smartclient._scope import Scope
from smartclient.budgets import Budget
from smartclient.budgets.plan import Plan, Plans
from smartclient.stores import MemoryStore
from tests.smartclient.budgets.spending import NOON, FailingStore


def a_plan(*budgets):
    return Plan(tuple(budget.book.counter(None) for budget in budgets))


def test_budgets_that_share_a_store_are_one_group():
    shared = MemoryStore()
    budgets = [
        Budget(name="a", tokens=1, store=shared),
        Budget(tokens=1),
        Budget(name="b", tokens=1, store=shared),
    ]

    parts = a_plan(*budgets).parts_at(NOON)

    assert [(part.store, [one.budget for one in part.counters]) for part in parts] == [
        (shared, [budgets[0], budgets[2]]),
        (budgets[1].store, [budgets[1]]),
    ]


def test_what_is_limited_decides_what_is_counted():
    assert a_plan(Budget(dollars=1)).is_priced
    assert a_plan(Budget(requests=1), Budget(tokens=1)).has_tokens
    assert not a_plan(Budget(requests=1)).has_tokens


def test_one_slow_store_is_enough_to_wait_for():
    slow = Budget(tokens=1, store=FailingStore())

    assert a_plan(Budget(tokens=1)).is_quick
    assert not a_plan(Budget(tokens=1), slow).is_quick


def test_only_in_one_store_do_names_meet():
    shared = MemoryStore()
    apart = a_plan(Budget(tokens=1), Budget(tokens=1)).parts_at(NOON)
    (part,) = a_plan(
        Budget(tokens=1, requests=8, store=shared), Budget(tokens=5, dollars=1, store=shared)
    ).parts_at(NOON)

    assert [len(one.accounts) for one in apart] == [1, 1]
    (account,) = part.accounts
    assert (account.tokens, account.requests, account.nanodollars) == (1, 8, 10**9)


def test_what_calls_count_in_is_worked_out_once_in_a_window():
    plan = a_plan(Budget(tokens=1, per="minute"), Budget(tokens=1, per="hour"), Budget(tokens=1))

    first, same = plan.parts_at(NOON), plan.parts_at(NOON + 59)
    after, before = plan.parts_at(NOON + 60), plan.parts_at(NOON - 1)

    assert first is same
    keys = [[part.accounts[0].key for part in parts] for parts in (before, first, after)]
    assert [len({row[place] for row in keys}) for place in range(3)] == [3, 2, 1]


def test_a_plan_is_made_once_for_calls_alike():
    plans, scope = Plans([Budget(tokens=1)]), Scope(tags=("a",))

    assert plans.of(None) is plans.of(None)
    assert plans.of(scope) is plans.of(Scope(tags=("b",)))


def test_plans_do_not_pile_up():
    plans = Plans([Budget(tokens=1, per_tag=True)])

    for number in range(1_100):
        plans.of(Scope(tags=(str(number),)))

    assert len(plans._plans) <= 1_024
