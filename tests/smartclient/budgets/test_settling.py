"""Every settlement comes to its store once, also where nobody is left to tell it."""

from __future__ import annotations

import logging
import os
import time

import pytest

from smartclient.budgets import Budget
from smartclient.budgets.settling import Settling
from smartclient.testing import ManualClock
from tests.smartclient.budgets.spending import FailingStore, Spending, spent


def until(is_so):
    """Whether it becomes so; a thread has to come to it."""
    ends = time.monotonic() + 5
    while not is_so() and time.monotonic() < ends:
        time.sleep(0.001)
    return is_so()


def with_store(**given):
    store = FailingStore()
    budget = Budget(**{"tokens": 10_000, "store": store} | given)
    return Spending(budget), budget, store


def test_a_settlement_that_fails_is_left_to_its_store(caplog):
    """Kept twice it would be told twice, and count twice once its id is forgotten."""
    spending, budget, store = with_store()
    reply = spending.begin()
    store.is_down = True
    with caplog.at_level(logging.WARNING, "smartclient"):
        spending.end(reply, used=6)
    store.recover()
    store.asked.clear()

    spending.begin()

    assert store.asked == ["Reserve"]
    assert spent(budget)[0] == 6
    assert len(caplog.records) == 1


def test_a_quick_store_keeps_what_it_could_not_take_too(caplog):
    spending, budget, store = with_store()
    store.is_quick = True
    reply = spending.begin()
    store.is_down = True
    with caplog.at_level(logging.WARNING, "smartclient"):
        spending.end(reply, used=6)

    store.recover()

    assert spent(budget) == (6, 0)
    assert len(caplog.records) == 1


def test_one_store_that_fails_keeps_no_other_from_being_told():
    budgets = [Budget(name=name, tokens=1000, store=FailingStore()) for name in "ab"]
    spending = Spending(*budgets)
    reply = spending.begin()
    budgets[0].store.is_down = True

    spending.end(reply, used=6)

    assert spent(budgets[1]) == (6, 0)


def two_of_one_call():
    budgets = [Budget(name=name, tokens=1000, store=FailingStore()) for name in "ab"]
    spending = Spending(*budgets)
    return spending, budgets, spending.begin()


def test_a_cancelled_settlement_keeps_no_other_store_from_being_told():
    _, (_, other), reply = two_of_one_call()
    flow = reply.taps[0].after(None)
    next(flow)

    with pytest.raises(KeyboardInterrupt):
        flow.throw(KeyboardInterrupt())
    del flow

    assert until(lambda: spent(other)[1] == 0)


def test_a_settlement_that_nobody_runs_is_told_all_the_same():
    """A client may be collected together with what its dropped bodies left to do."""
    _, budgets, reply = two_of_one_call()
    flow = reply.taps[0].after(None)

    del flow

    assert until(lambda: [spent(budget)[1] for budget in budgets] == [0, 0])


def test_a_store_that_fails_then_is_told_of_too(caplog):
    _, (one, other), reply = two_of_one_call()
    one.store.is_down = True
    flow = reply.taps[0].after(None)

    with caplog.at_level(logging.WARNING, "smartclient"):
        del flow
        assert until(lambda: spent(other)[1] == 0)

    assert "cannot be reached: no route" in caplog.text


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


def test_a_thread_that_comes_in_between_finds_the_whole_name():
    """Without what tells processes apart, its name might be that of another's call."""
    names = []

    class Interrupted(Settling):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "_pid" and value:
                names.append(self.new_id())

    names.append(Interrupted(ManualClock()).new_id())

    assert [len(name) for name in names] == [17, 17]


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
