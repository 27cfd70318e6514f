"""Settlements that a store could not take are kept, and delivered later."""

from __future__ import annotations

import logging
import os

import pytest

from smartclient.budgets import Budget
from smartclient.budgets.plan import Plans
from smartclient.budgets.settling import Part, Settling
from smartclient.policies.budget import Budgets
from smartclient.stores import Amount
from smartclient.testing import ManualClock
from tests.smartclient.budgets.spending import FailingStore, Spending, spent


def with_store(**given):
    store = FailingStore()
    budget = Budget(**{"tokens": 10_000, "store": store} | given)
    return Spending(budget), budget, store


def test_a_settlement_that_fails_is_delivered_before_the_next_reservation(caplog):
    spending, budget, store = with_store()
    reply = spending.begin()
    store.is_down = True
    with caplog.at_level(logging.WARNING, "smartclient"):
        spending.end(reply, used=6)
    store.is_down = False
    store.asked.clear()

    spending.begin()

    assert store.asked == ["Settle", "Reserve"]
    assert spent(budget)[0] == 6
    assert len(caplog.records) == 1


def test_while_it_cannot_be_delivered_nothing_more_is_asked(caplog):
    """One time out for each call, not two."""
    spending, _, store = with_store(on_store_failure="allow")
    reply = spending.begin()
    store.is_down = True
    spending.end(reply, used=6)
    store.asked.clear()

    with caplog.at_level(logging.WARNING, "smartclient"):
        spending.begin()

    assert store.asked == ["Settle"]


def test_what_is_owed_is_delivered_when_the_client_is_closed():
    spending, budget, store = with_store()
    reply = spending.begin()
    store.is_down = True
    spending.end(reply, used=6)
    store.is_down = False

    spending.run(spending.policy.finish())

    assert spent(budget) == (6, 0)
    spending.run(spending.policy.finish())  # nothing is left
    assert store.asked.count("Settle") == 2


def test_other_stores_are_not_asked_for_what_one_is_owed():
    spending, _, store = with_store()
    reply = spending.begin()
    store.is_down = True
    spending.end(reply, used=6)
    other = FailingStore()
    store.asked.clear()
    spending.policy._plans = Plans([Budget(tokens=1000, store=other)])

    spending.begin()

    assert (store.asked, other.asked) == ([], ["Reserve"])


def test_what_is_kept_is_bounded(caplog):
    store = FailingStore()
    held = Settling(ManualClock(), most_owed=2)
    part = Part(store, (), (), Amount())
    store.is_down = True

    with caplog.at_level(logging.WARNING, "smartclient"):
        for _ in range(3):
            Spending().run(held.settle(held.hold(held.new_id(), [part]), Amount()))

    assert len(held._owed) == 2
    assert "the oldest is lost" in caplog.text


def test_a_cancelled_settlement_is_told_again_and_counts_once():
    spending, budget, _ = with_store()
    reply = spending.begin()
    flow = reply.taps[0].after(None)
    spending.perform(next(flow))  # it has come there

    with pytest.raises(KeyboardInterrupt):
        flow.throw(KeyboardInterrupt())  # but its answer has not come back
    first = spent(budget)
    spending.run(spending.policy.finish())

    assert first[0] > 50
    assert spent(budget) == first


def test_a_cancelled_settlement_keeps_no_other_store_from_being_told():
    budgets = [Budget(name=name, tokens=1000, store=FailingStore()) for name in "ab"]
    spending = Spending(*budgets)
    reply = spending.begin()
    flow = reply.taps[0].after(None)
    next(flow)

    with pytest.raises(KeyboardInterrupt):
        flow.throw(KeyboardInterrupt())
    spending.run(spending.policy.finish())

    assert [spent(budget)[1] for budget in budgets] == [0, 0]


def test_a_quick_store_that_fails_is_told_later_too():
    spending, budget, store = with_store()
    store.is_quick = True
    reply = spending.begin()
    store.is_down = True
    spending.end(reply, used=6)
    store.is_down = False

    spending.begin()

    assert spent(budget)[0] == 6


def test_a_quick_store_that_fails_is_no_reason_to_spend_money():
    spending, _, store = with_store(tokens=None, dollars=1)
    store.is_quick = store.is_down = True

    with pytest.raises(Exception, match="cannot be reached"):
        spending.begin()


def test_each_call_has_a_name_of_its_own():
    one, other = (Spending(Budget(tokens=1)).policy._settling for _ in range(2))

    names = [held.new_id() for held in (one, one, other, other)]

    assert len(set(names)) == 4


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_settles_nothing_of_its_parent():
    spending, _, store = with_store()
    reply = spending.begin()
    store.asked.clear()
    reading, writing = os.pipe()

    child = os.fork()
    if not child:
        spending.end(reply, used=6)
        os.write(writing, f"{store.asked}".encode())
        os._exit(0)
    os.close(writing)
    told = os.read(reading, 100)
    os.close(reading)
    os.waitpid(child, 0)

    assert told == b"[]"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_counts_under_names_of_its_own():
    held = Spending(Budget(tokens=1)).policy._settling
    held.new_id()
    reading, writing = os.pipe()

    child = os.fork()
    if not child:
        os.write(writing, held.new_id().encode())
        os._exit(0)
    os.close(writing)
    told = os.read(reading, 100).decode()
    os.close(reading)
    os.waitpid(child, 0)

    assert told != held.new_id()


def test_a_policy_without_debts_has_nothing_to_finish():
    spending = Spending(Budget(tokens=1000))
    spending.call()

    assert isinstance(spending.policy, Budgets)
    assert list(spending.policy.finish()) == []
