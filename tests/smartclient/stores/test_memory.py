"""Accounts in the memory of this process."""

from __future__ import annotations

import os
import pickle
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.stores import (
    Account,
    Amount,
    Balance,
    Booking,
    MemoryStore,
    Read,
    Reserve,
    Settle,
)
from tests.smartclient.fakes import ASYNCIO
from tests.smartclient.stores.contract import StoreContract

ACCOUNT = Account("app", tokens=100)
NOTHING = Amount()


def tokens(number):
    return Amount(tokens=number)


def reserve(store, number, *accounts, at=0.0):
    return store.do(Reserve(accounts or (ACCOUNT,), tokens(number), at))


def settle(store, id, held, spent, *accounts, at=0.0):
    bookings = tuple(Booking(one, tokens(held), tokens(spent)) for one in accounts or (ACCOUNT,))
    return store.do(Settle(id, bookings, at))


def read(store, *accounts, at=0.0):
    return store.do(Read(accounts or (ACCOUNT,), at))


def test_what_is_reserved_is_held():
    store = MemoryStore()

    assert reserve(store, 60).short is None
    assert read(store) == (Balance(NOTHING, tokens(60)),)


def test_what_does_not_fit_is_not_held():
    store = MemoryStore()
    reserve(store, 60)

    found = reserve(store, 41)

    assert found.short == (0, "tokens")
    assert found.balances == (Balance(NOTHING, tokens(60)),)
    assert reserve(store, 40).short is None


@pytest.mark.parametrize(
    ("meter", "amount"),
    [
        pytest.param("requests", Amount(requests=4), id="requests"),
        pytest.param("tokens", Amount(tokens=4), id="tokens"),
        pytest.param("nanodollars", Amount(nanodollars=4), id="dollars"),
    ],
)
def test_each_meter_has_its_limit(meter, amount):
    account = Account("app", 3, 3, 3)

    assert MemoryStore().do(Reserve((account,), amount, 0.0)).short == (0, meter)


def test_a_meter_without_a_limit_is_counted_all_the_same():
    store = MemoryStore()

    store.do(Reserve((ACCOUNT,), Amount(requests=7, nanodollars=9), 0.0))

    assert read(store)[0].held == Amount(requests=7, nanodollars=9)


def test_several_accounts_are_taken_of_together_or_not_at_all():
    store, small = MemoryStore(), Account("user", tokens=10)

    found = reserve(store, 11, ACCOUNT, small)

    assert found.short == (1, "tokens")
    assert read(store, ACCOUNT, small) == (Balance(), Balance())


def test_a_settlement_lets_go_and_adds_what_was_spent():
    store = MemoryStore()
    reserve(store, 60)

    assert settle(store, "1", 60, 75) == (Balance(tokens(75), NOTHING),)


def test_what_was_used_was_used_also_above_the_limit():
    store = MemoryStore()
    reserve(store, 60)
    settle(store, "1", 60, 1_000)

    assert reserve(store, 1).short == (0, "tokens")


def test_the_same_settlement_counts_once():
    store = MemoryStore()
    reserve(store, 60)
    settle(store, "1", 60, 50)

    assert settle(store, "1", 60, 50) == (Balance(tokens(50), NOTHING),)


def test_the_memory_of_settlements_is_bounded():
    store = MemoryStore()

    for number in range(20_000):
        settle(store, str(number), 0, 0)

    assert len(store._settled) + len(store._settled_before) <= 16_384
    assert settle(store, "19999", 0, 9) == (Balance(),)  # the newest are among them


def test_an_account_that_nobody_asks_for_any_more_is_dropped():
    store = MemoryStore()
    for number in range(100):
        reserve(store, 1, Account(f"minute {number}", tokens=10, expires=number + 1.0), at=0.0)

    reserve(store, 1, at=100.0)

    assert len(store) == 1


def test_a_settlement_for_an_account_that_is_gone_changes_nothing():
    store, gone = MemoryStore(), Account("minute", tokens=10, expires=60.0)
    reserve(store, 5, gone, at=0.0)

    settle(store, "1", 5, 5, gone, at=61.0)

    assert len(store) == 0


def test_whatever_is_let_go_opens_the_latch():
    store = MemoryStore()
    reserve(store, 60)
    latch = store.changed()
    assert not latch.is_set

    settle(store, "1", 60, 0)

    assert latch.is_set
    assert not store.changed().is_set


def test_async_code_does_the_same():
    store = MemoryStore()

    assert store.is_quick
    assert ASYNCIO.do(store.do_async(Reserve((ACCOUNT,), tokens(60), 0.0))).short is None


def test_a_settlement_never_waits_for_whoever_holds_the_lock():
    """A finalizer makes it, perhaps in the thread that has the lock."""
    store = MemoryStore()
    reserve(store, 60)

    with store._lock:
        settle(store, "1", 60, 50)
    assert reserve(store, 50).short is None

    assert read(store) == (Balance(tokens(50), tokens(50)),)


def test_it_stays_in_its_process():
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(MemoryStore())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_goes_on_without_what_its_parent_holds():
    store = MemoryStore()
    reserve(store, 60)
    settle(store, "1", 10, 10)
    reading, writing = os.pipe()

    with store._lock:  # held by a thread that the child does not have
        child = os.fork()
        if not child:
            balance = read(store)[0]
            os.write(writing, f"{balance.spent.tokens} {balance.held.tokens}".encode())
            os._exit(0)
    os.close(writing)
    told = os.read(reading, 100)
    os.close(reading)
    os.waitpid(child, 0)

    assert told == b"10 0"
    assert read(store)[0].held == tokens(50)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 80), st.booleans()), max_size=40))
def test_through_reservations_alone_no_limit_is_crossed(steps):
    """Whatever the order: spent and held never pass the limit, and all that is held is let go."""
    store, out, total = MemoryStore(), [], 0
    for number, (asked, used, is_settled) in enumerate(steps):
        if reserve(store, asked).short is None:
            out.append((number, asked, min(asked, used)))
        balance = read(store)[0]
        assert balance.spent.tokens + balance.held.tokens <= 100
        assert balance.held.tokens == sum(held for _, held, _ in out)
        if is_settled and out:
            id, held, spent = out.pop(used % len(out))
            settle(store, str(id), held, spent)
            total += spent

    for id, held, spent in out:
        settle(store, str(id), held, spent)
        total += spent
    assert read(store) == (Balance(tokens(total), NOTHING),)


def test_threads_overspend_nothing():
    store, account = MemoryStore(), Account("app", tokens=2_000)
    spent: list[int] = []

    def work(seed):
        chance = random.Random(seed)
        for number in range(400):
            if reserve(store, 7, account).short is None:
                used = chance.randint(0, 7)
                settle(store, f"{seed}-{number}", 7, used, account)
                spent.append(used)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read(store, account) == (Balance(tokens(sum(spent)), NOTHING),)
    assert sum(spent) <= 2_000


class TestMemoryStore(StoreContract):
    """It promises what every store does."""

    @pytest.fixture
    def store(self):
        return MemoryStore()
