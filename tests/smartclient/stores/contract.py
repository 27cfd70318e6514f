"""What every store promises: a test module subclasses `StoreContract` and gives it a `store`.

class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self):
        return MemoryStore()
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio

from smartclient.stores import Account, Amount, Balance, Booking, Read, Reserve, Settle

__all__ = ["AT", "StoreContract", "account", "balance", "read", "reserve", "settle", "tokens"]

AT = 1_790_000_000.0
NONE = Amount()


def account(key="app", **limits):
    return Account(key, **limits)


def tokens(number):
    return Amount(tokens=number)


def reserve(number, *accounts, id=""):
    return Reserve(accounts, tokens(number), AT, id)


def settle(id, *accounts, held=0, spent=0):
    bookings = [Booking(one, tokens(held), tokens(spent)) for one in accounts]
    return Settle(id, tuple(bookings), AT)


def read(store, *accounts):
    return store.do(Read(accounts, AT))


def balance(spent=0, held=0):
    return Balance(tokens(spent), tokens(held))


def in_asyncio(work):
    return asyncio.run(work())


class StoreContract:
    def test_nothing_is_spent_or_held_at_first(self, store):
        assert read(store, account("a"), account("b")) == (Balance(), Balance())

    def test_what_is_reserved_is_held(self, store):
        app = account(tokens=100)

        answer = store.do(reserve(60, app))

        assert (answer.short, answer.balances) == (None, (balance(held=60),))
        assert read(store, app) == (balance(held=60),)

    def test_all_of_a_limit_can_be_held(self, store):
        store.do(reserve(60, account(tokens=100)))

        assert store.do(reserve(40, account(tokens=100))).short is None

    def test_more_than_a_limit_cannot(self, store):
        app = account(tokens=100)
        store.do(reserve(60, app))

        answer = store.do(reserve(41, app))

        assert (answer.short, answer.balances) == ((0, "tokens"), (balance(held=60),))

    def test_what_is_spent_takes_room_too(self, store):
        app = account(tokens=100)
        store.do(settle("a", app, spent=60))

        assert store.do(reserve(41, app)).short == (0, "tokens")

    @pytest.mark.parametrize("meter", ["requests", "tokens", "nanodollars"])
    def test_each_meter_has_a_limit_of_its_own(self, store, meter):
        app = account(**{meter: 5})
        more = Amount(**({"requests": 99, "tokens": 99, "nanodollars": 99} | {meter: 6}))

        assert store.do(Reserve((app,), more, AT)).short == (0, meter)

    def test_the_first_meter_that_is_short_is_named(self, store):
        app = account(requests=1, tokens=1, nanodollars=1)
        more = Amount(requests=1, tokens=2, nanodollars=2)

        assert store.do(Reserve((app,), more, AT)).short == (0, "tokens")

    def test_without_a_limit_there_is_room(self, store):
        assert store.do(reserve(10**15, account())).short is None

    def test_nothing_fits_where_more_than_the_limit_was_used(self, store):
        app = account(tokens=100)
        store.do(settle("a", app, spent=101))

        assert store.do(reserve(0, app)).short == (0, "tokens")

    def test_a_reservation_is_all_or_none(self, store):
        app, user, run = account("app", tokens=100), account("user", tokens=10), account("run")

        answer = store.do(reserve(11, app, user, run))

        assert answer.short == (1, "tokens")
        assert answer.balances == read(store, app, user, run) == (Balance(),) * 3

    def test_an_account_that_is_named_twice_is_taken_from_twice(self, store):
        app = account(tokens=100)

        assert store.do(reserve(51, app, app)).short == (1, "tokens")
        assert store.do(reserve(50, app, app)).balances == (balance(held=100),) * 2

    def test_a_limit_is_of_whoever_asks(self, store):
        """Budgets change while calls are out: nothing of a limit is kept."""
        store.do(reserve(60, account(tokens=100)))

        assert store.do(reserve(60, account(tokens=200))).short is None

    def test_a_reservation_with_an_id_holds_once(self, store):
        app = account(tokens=100)
        store.do(reserve(60, app, id="a"))

        again = store.do(reserve(60, app, id="a"))

        assert (again.short, again.balances) == (None, (balance(held=60),))

    def test_a_refused_reservation_may_be_asked_for_again(self, store):
        app = account(tokens=100)
        assert store.do(reserve(101, app, id="a")).short is not None

        assert store.do(reserve(99, app, id="a")).short is None

    def test_a_reservation_that_comes_after_its_settlement_holds_nothing(self, store):
        app = account(tokens=100)
        store.do(settle("a", app, spent=10))

        store.do(reserve(60, app, id="a"))

        assert read(store, app) == (balance(spent=10),)

    def test_a_settlement_lets_go_and_charges(self, store):
        app = account(tokens=100)
        store.do(reserve(60, app))

        assert store.do(settle("a", app, held=60, spent=25)) == (balance(spent=25),)
        assert read(store, app) == (balance(spent=25),)

    def test_a_settlement_is_never_refused(self, store):
        app = account(tokens=100)

        assert store.do(settle("a", app, spent=250)) == (balance(spent=250),)

    def test_the_same_settlement_counts_once(self, store):
        app = account(tokens=100)
        store.do(reserve(60, app))
        store.do(reserve(60, account()))
        store.do(settle("a", app, held=60, spent=25))

        again = store.do(settle("a", app, held=60, spent=25))

        assert again == (balance(spent=25, held=60),)

    def test_settlements_of_other_calls_add_up(self, store):
        store.do(settle("a", account(), spent=25))

        assert store.do(settle("b", account(), spent=25)) == (balance(spent=50),)

    def test_each_booking_is_of_its_own_account(self, store):
        app, user = account("app"), account("user")
        store.do(reserve(60, app))
        bookings = (Booking(app, tokens(60), tokens(1)), Booking(user, NONE, tokens(2)))

        balances = store.do(Settle("a", bookings, AT))

        assert balances == (balance(spent=1), balance(spent=2))

    def test_no_more_is_let_go_than_is_held(self, store):
        """A store that lost its state must not take a settlement for room."""
        store.do(settle("a", account(), held=60, spent=5))

        assert read(store, account()) == (balance(spent=5),)

    def test_large_counts_are_exact(self, store):
        app = account(nanodollars=2**53)
        store.do(Reserve((app,), Amount(nanodollars=2**53 - 2), AT))

        one, two = Amount(nanodollars=1), Amount(nanodollars=2)
        refused = store.do(Reserve((app,), Amount(nanodollars=3), AT)).short
        answers = [store.do(Reserve((app,), amount, AT)).short for amount in (one, two, one)]

        assert (refused, answers) == ((0, "nanodollars"), [None, (0, "nanodollars"), None])

    @pytest.mark.parametrize("key", ["a{b}c", "ü 漢", "a\0b", "\ud800", "x" * 5_000, "%s'\"--"])
    def test_a_key_may_be_any_text(self, store, key):
        store.do(reserve(60, account(key)))

        assert read(store, account(key), account("other")) == (balance(held=60), Balance())

    def test_nothing_may_be_asked_of_no_account(self, store):
        assert store.do(Reserve((), NONE, AT)).balances == ()
        assert store.do(Settle("a", (), AT)) == ()
        assert read(store) == ()

    def test_whoever_waits_is_told_when_something_is_let_go(self, store):
        store.do(reserve(60, account()))
        latch = store.changed()
        assert not latch.is_set

        store.do(settle("a", account(), held=60))

        assert latch.is_set
        assert not store.changed().is_set

    @pytest.mark.parametrize("run", [in_asyncio, trio.run], ids=["asyncio", "trio"])
    def test_async_code_gets_the_same_answers(self, store, run):
        app = account(tokens=100)

        async def ask():
            first = await store.do_async(reserve(60, app))
            second = await store.do_async(reserve(60, app))
            last = await store.do_async(settle("a", app, held=60, spent=7))
            return first.short, second.short, last, await store.do_async(Read((app,), AT))

        expected = (None, (0, "tokens"), (balance(spent=7),), (balance(spent=7),))
        assert run(ask) == expected

    def test_threads_together_take_no_more_than_there_is(self, store):
        app = account(tokens=50)

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: store.do(reserve(1, app)), range(80)))

        assert sum(answer.short is None for answer in answers) == 50
        assert read(store, app) == (balance(held=50),)

    def test_tasks_together_take_no_more_than_there_is(self, store):
        app = account(tokens=50)

        async def all_at_once():
            asked = [store.do_async(reserve(1, app)) for _ in range(80)]
            return await asyncio.gather(*asked)

        answers = asyncio.run(all_at_once())

        assert sum(answer.short is None for answer in answers) == 50
