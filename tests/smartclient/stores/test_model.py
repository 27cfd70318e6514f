"""Any operations in any order come to the same in every store as in a few lines of Python."""

from __future__ import annotations

from collections import defaultdict
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from smartclient.stores import Account, Amount, Balance, Booking, Read, Reserve, Reserved, Settle
from smartclient.stores.redis import RedisStore
from smartclient.stores.sqlite import SQLiteStore
from tests.smartclient.stores.contract import AT

METERS = ("requests", "tokens", "nanodollars")


class Model:
    """What a store promises, for one caller at a time."""

    def __init__(self):
        self.spent = defaultdict(lambda: dict.fromkeys(METERS, 0))
        self.held = defaultdict(lambda: dict.fromkeys(METERS, 0))
        self.known, self.settled = set(), set()

    def do(self, operation):
        match operation:
            case Reserve(accounts, amount, _, id):
                return self.reserve(accounts, amount, id)
            case Settle(id, bookings, _):
                if id not in self.settled:
                    for booking in bookings:
                        self.book(booking)
                    if id:
                        self.known.add(id), self.settled.add(id)
                return tuple(self.balance(one.account) for one in bookings)
            case Read(accounts):
                return tuple(map(self.balance, accounts))

    def reserve(self, accounts, amount, id):
        if id in self.known:
            return Reserved(tuple(map(self.balance, accounts)))
        before = tuple(map(self.balance, accounts))
        held = {key: dict(row) for key, row in self.held.items()}
        for place, one in enumerate(accounts):
            for meter in METERS:
                limit, more = getattr(one, meter), getattr(amount, meter)
                used = self.spent[one.key][meter] + self.held[one.key][meter]
                if limit is not None and used + more > limit:
                    self.held.clear()
                    self.held.update(held)
                    return Reserved(before, (place, meter))
            for meter in METERS:
                self.held[one.key][meter] += getattr(amount, meter)
        if id:
            self.known.add(id)
        return Reserved(tuple(map(self.balance, accounts)))

    def book(self, booking):
        held, spent = self.held[booking.account.key], self.spent[booking.account.key]
        for meter in METERS:
            held[meter] = max(0, held[meter] - getattr(booking.held, meter))
            spent[meter] += getattr(booking.spent, meter)

    def balance(self, one):
        return Balance(Amount(**self.spent[one.key]), Amount(**self.held[one.key]))


small = st.integers(0, 4)
amounts = st.builds(Amount, requests=small, tokens=small, nanodollars=small)
limit = st.none() | st.integers(0, 12)
accounts = st.builds(
    Account, st.sampled_from("abc"), requests=limit, tokens=limit, nanodollars=limit
)
some_accounts = st.lists(accounts, max_size=3).map(tuple)
ids = st.sampled_from(["", "", "1", "2", "3"])
bookings = st.lists(st.builds(Booking, accounts, amounts, amounts), max_size=3).map(tuple)
operations = st.lists(
    st.builds(Reserve, some_accounts, amounts, st.just(AT), ids)
    | st.builds(Settle, ids, bookings, st.just(AT))
    | st.builds(Read, some_accounts, st.just(AT)),
    max_size=14,
)


def apart(operation, name):
    """The operation on accounts and calls that no other example has."""
    if not isinstance(operation, Settle):
        operation = replace(operation, accounts=tuple(named(operation.accounts, name)))
    else:
        accounts = named([one.account for one in operation.bookings], name)
        pairs = zip(operation.bookings, accounts, strict=True)
        operation = replace(
            operation, bookings=tuple(replace(one, account=account) for one, account in pairs)
        )
    has_id = not isinstance(operation, Read) and operation.id
    return replace(operation, id=f"{name}-{operation.id}") if has_id else operation


def named(accounts, name):
    return [replace(one, key=f"{name}-{one.key}") for one in accounts]


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def store(request, tmp_path, prefix):
    if request.param == "sqlite":
        store = SQLiteStore(tmp_path / "budgets.db")
    else:
        url = request.getfixturevalue("shared_redis").url
        store = RedisStore(url, prefix=prefix)
    yield store
    store.close()


def test_a_store_does_as_the_model(store):
    numbers = count()

    @given(operations)
    def run(asked):
        model, name = Model(), next(numbers)
        asked = [apart(operation, name) for operation in asked]

        answers = [store.do(operation) for operation in asked]

        assert answers == [model.do(operation) for operation in asked]

    run()
