"""Taken of every budget, or of none; and what is asked instead."""

from __future__ import annotations

import contextlib
import logging

import pytest

from smartclient import BudgetExceededError, RefusedError
from smartclient._flow import Exchange
from smartclient.budgets import Budget, Downgrade
from smartclient.stores import MemoryStore
from tests.smartclient.budgets.spending import FailingStore, Spending, a_budgeted_call, spent


def sent(spending):
    """The payloads that were sent."""
    return [one.call.payload for one in spending.asked if isinstance(one, Exchange)]


# All or none.

STORES = pytest.mark.parametrize(
    "stores",
    [
        pytest.param(lambda: [MemoryStore()] * 2, id="one-quick"),
        pytest.param(lambda: [FailingStore()] * 2, id="one-slow"),
        pytest.param(lambda: [MemoryStore(), MemoryStore()], id="two-quick"),
        pytest.param(lambda: [MemoryStore(), FailingStore()], id="quick-and-slow"),
        pytest.param(lambda: [FailingStore(), MemoryStore()], id="slow-and-quick"),
        pytest.param(lambda: [FailingStore(), FailingStore()], id="two-slow"),
    ],
)


@STORES
def test_what_is_refused_by_one_is_taken_of_none(stores):
    one, other = stores()
    large = Budget(name="large", tokens=1000, store=one)
    small = Budget(name="small", tokens=10, store=other)

    with pytest.raises(BudgetExceededError, match="'small'"):
        Spending(large, small).begin()

    assert spent(large) == spent(small) == (0, 0)


@STORES
def test_what_all_have_room_for_is_taken_of_all(stores):
    one, other = stores()
    first = Budget(name="first", tokens=1000, store=one)
    second = Budget(name="second", tokens=1000, store=other)

    trace = Spending(first, second).call(used=6)

    assert spent(first) == spent(second) == (6, 0)
    assert trace.budget_left == {"first": {"tokens": 994}, "second": {"tokens": 994}}


def test_those_that_share_a_store_are_asked_in_one_step():
    store = FailingStore()

    Spending(*(Budget(name=name, tokens=500, store=store) for name in "abc")).call()

    assert store.asked == ["Reserve", "Settle"]


def test_budgets_of_one_name_in_one_store_count_once_at_the_lower_limit():
    store = MemoryStore()
    loose, tight = Budget(tokens=500, store=store), Budget(tokens=100, requests=9, store=store)
    spending = Spending(loose, tight)

    spending.call(used=60)

    assert spent(loose) == spent(tight) == (60, 0)
    with pytest.raises(BudgetExceededError, match="less 60 tokens spent"):
        spending.begin()


def test_a_call_that_is_cancelled_between_two_stores_gives_back():
    first = Budget(name="first", tokens=1000)
    second = Budget(name="second", tokens=1000, store=FailingStore())
    spending = Spending(first, second)
    flow = spending.flow(a_budgeted_call())
    effect = next(flow)
    effect = spending.send(flow, effect)
    assert spent(first)[1] > 0

    with pytest.raises(KeyboardInterrupt):
        flow.throw(KeyboardInterrupt())

    assert spent(first) == (0, 0)


# Stores that fail.


def test_money_is_not_spent_where_nobody_can_count_it(caplog):
    store = FailingStore()
    spending = Spending(Budget(name="app", dollars=1, store=store))
    store.is_down = True

    with caplog.at_level(logging.WARNING, "smartclient"):
        for _ in range(3):
            with pytest.raises(RefusedError, match="store of budget 'app' cannot be reached"):
                spending.begin()

    assert not sent(spending)
    assert len(caplog.records) == 1


def test_the_rest_goes_on_uncounted_and_counts_again_by_itself(caplog):
    store = FailingStore()
    budget = Budget(tokens=1000, store=store)
    spending = Spending(budget)
    store.is_down = True

    with caplog.at_level(logging.WARNING, "smartclient"):
        spending.call(used=5)
        spending.call(used=5)
        store.is_down = False
        spending.call(used=7)

    assert spent(budget) == (7, 0)
    assert len(caplog.records) == 1


def a_silent_store(**given):
    """It fails after two seconds, as one whose machine is gone does."""
    store = FailingStore()
    spending = Spending(Budget(store=store, **given))

    def do(operation, do=store.do):
        if store.is_down:
            spending.clock.advance(2.0)
        return do(operation)

    store.do, store.is_down = do, True
    return spending, store


@pytest.mark.parametrize(
    ("given", "times"),
    [
        pytest.param({"tokens": 1000}, 1, id="they-go-on-uncounted"),
        pytest.param({"dollars": 1}, 5, id="better-late-than-refused"),
    ],
)
def test_not_every_call_waits_for_a_store_that_is_silent(given, times):
    spending, store = a_silent_store(**given)

    for _ in range(5):
        with contextlib.suppress(RefusedError):
            spending.begin()

    assert store.asked == ["Reserve"] * times


def test_a_store_that_was_silent_is_asked_again_after_a_second():
    spending, store = a_silent_store(tokens=1000)
    spending.call()
    store.is_down = False

    spending.clock.advance(1.0)
    spending.call()

    assert store.asked == ["Reserve", "Reserve", "Settle"]


def test_a_second_failure_is_warned_of_again(caplog):
    store = FailingStore()
    spending = Spending(Budget(tokens=1000, store=store))

    with caplog.at_level(logging.WARNING, "smartclient"):
        for is_down in (True, False, True):
            store.is_down = is_down
            spending.call()

    assert len(caplog.records) == 2


def test_what_was_taken_elsewhere_is_given_back_when_a_store_fails():
    store, first = FailingStore(), Budget(tokens=1000)
    store.is_down = True

    with pytest.raises(RefusedError):
        Spending(first, Budget(dollars=1, store=store)).begin()

    assert spent(first) == (0, 0)


# Downgrades.


def test_an_answer_is_cut_down_to_what_fits(caplog):
    budget = Budget(name="app", tokens=50, on_limit=Downgrade(max_tokens=10))
    spending = Spending(budget)

    with caplog.at_level(logging.WARNING, "smartclient"):
        reply = spending.begin()

    (payload,) = sent(spending)
    assert 10 <= payload["max_tokens"] < 50
    assert spent(budget) == (0, 50)
    change = f"budget 'app': max_tokens 50 -> {payload['max_tokens']}"
    assert reply.call.trace.downgraded == change
    assert "max_tokens 50 ->" in caplog.text


def test_a_cheaper_model_is_asked_where_that_is_not_enough():
    budget = Budget(name="app", dollars="0.0001", on_limit=Downgrade(max_tokens=40, model="small"))
    spending = Spending(budget)

    reply = spending.begin()

    assert sent(spending)[0]["model"] == "small"
    assert sent(spending)[0]["max_tokens"] == 50
    assert reply.call.trace.downgraded == "budget 'app': model 'mine' -> 'small'"


def test_the_cheaper_models_answer_may_be_cut_too():
    on_limit = Downgrade(max_tokens=30, model="small")
    spending = Spending(Budget(dollars="0.00004", on_limit=on_limit))

    spending.begin()

    assert sent(spending)[0]["model"] == "small"
    assert sent(spending)[0]["max_tokens"] == 40


def test_what_does_not_fit_after_all_is_refused():
    on_limit = Downgrade(max_tokens=45, model="small")
    budget = Budget(dollars="0.00004", on_limit=on_limit)

    with pytest.raises(BudgetExceededError):
        Spending(budget).begin()

    assert budget.left() == {"dollars": 0.00004}


def test_a_model_of_unknown_price_is_not_known_to_be_cheaper():
    spending = Spending(Budget(dollars="0.0001", on_limit=Downgrade(model="unheard-of")))

    with pytest.raises(BudgetExceededError):
        spending.begin()


def test_every_budget_has_its_own_way():
    wide = Budget(name="wide", tokens=1000)
    tight = Budget(name="tight", tokens=50, on_limit=Downgrade(max_tokens=1))
    spending = Spending(wide, tight)

    spending.begin()

    assert spent(wide) == spent(tight) == (0, 50)
