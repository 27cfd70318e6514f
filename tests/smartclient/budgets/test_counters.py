"""The accounts of a budget, and its warnings."""

from __future__ import annotations

import logging

import pytest

from smartclient.budgets import Budget
from smartclient.stores import Amount, Balance, MemoryStore, Reserve

NOON = 1_700_049_600.0


def key(tag=None, at=NOON, **given):
    budget = Budget(**{"tokens": 5} | given)
    return budget.book.counter(tag).account_at(at).key


def test_each_window_has_an_account_of_its_own():
    budget = Budget(tokens=5, per="minute")
    counter = budget.book.counter(None)

    first, same = counter.account_at(NOON), counter.account_at(NOON + 59.9)
    after = counter.account_at(NOON + 60)

    assert first is same
    assert first.key != after.key
    assert counter.account_at(NOON).key == first.key  # a clock that was put back


def test_an_account_outlives_its_window_for_the_calls_that_began_in_it():
    account = Budget(tokens=5, per="minute").book.counter(None).account_at(NOON)

    assert account.expires > NOON + 60 + 600
    assert Budget(tokens=5).book.counter(None).account_at(NOON).expires is None


def test_a_short_window_does_not_stay_for_a_day():
    """There is one for each minute of each user, who may be many."""
    store = MemoryStore()
    counter = Budget(requests=5, per="minute", store=store).book.counter(None)

    for minute in range(60):
        at = NOON + 60 * minute
        store.do(Reserve((counter.account_at(at),), Amount(requests=1), at))

    assert len(store) < 20


def test_any_text_is_a_name():
    """Names of files and of users may hold what is no character."""
    names = ["\ud800", "\udcff", "\\ud800", "?"]

    assert len({key(name, per_tag=True) for name in names}) == 4
    assert len({key(name=name) for name in names}) == 4


def test_tags_share_an_account_unless_each_has_its_own():
    assert key("a") == key("b") == key()
    assert len({key("a", per_tag=True), key("b", per_tag=True), key(per_tag=True)}) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"name": "a", "tag": "b#c"}, {"name": "a#b", "tag": "c"}, id="marks"),
        pytest.param({"name": "a/60s@0"}, {"name": "a"}, id="windows"),
        pytest.param({"name": "a", "per": "day"}, {"name": "a", "per": "month"}, id="lengths"),
    ],
)
def test_no_two_budgets_meet_by_their_names(one, other):
    assert key(per_tag=True, **one) != key(per_tag=True, **other)


def test_tags_are_remembered_up_to_a_bound():
    book = Budget(tokens=5, per_tag=True).book
    waiting = book.counter("waits")
    waiting.line.join()

    for number in range(10_001):
        book.counter(str(number))

    assert len(book._by_tag) < 10_000
    assert book.counter("waits") is waiting


def warned(budget, *spent, at=NOON):
    counter = budget.book.counter(None)
    for tokens in spent:
        balance = Balance(Amount(tokens=tokens))
        if counter.is_due(balance):
            counter.warn(counter.account_at(at), balance)


def test_each_share_is_warned_of_once_in_a_window():
    seen = []
    budget = Budget(tokens=100, per="minute", warn_at=(0.5, 0.9), on_warning=seen.append)

    warned(budget, 49, 50, 60, 95, 99)
    warned(budget, 10, 70, at=NOON + 60)

    assert [(state.spent["tokens"], state.share) for state in seen] == [
        (50, 0.5),
        (95, 0.95),
        (70, 0.7),
    ]
    assert (seen[0].budget, seen[0].meter, seen[0].left) == ("budget", "tokens", {"tokens": 50})


def test_a_leap_over_two_shares_is_one_warning():
    seen = []

    warned(Budget(tokens=100, warn_at=(0.5, 0.9), on_warning=seen.append), 100)

    assert len(seen) == 1


def test_without_a_callable_the_log_is_told(caplog):
    with caplog.at_level(logging.WARNING, "smartclient"):
        warned(Budget(name="app", tokens=100), 85)

    assert "budget 'app' has spent 85 % of its tokens: 85 of 100 in all" in caplog.text


def test_a_callable_that_raises_breaks_nothing(caplog):
    def on_warning(state):
        raise RuntimeError("disk full")

    warned(Budget(tokens=100, on_warning=on_warning), 85)

    assert "on_warning failed" in caplog.text


def test_without_shares_nobody_is_warned():
    budget = Budget(tokens=100, warn_at=())

    assert not budget.book.counter(None).is_due(Balance(Amount(tokens=100)))


@pytest.mark.parametrize(
    ("spent", "meter"),
    [
        pytest.param(Amount(nanodollars=9 * 10**8, tokens=85), "dollars", id="dollars"),
        pytest.param(Amount(tokens=95, requests=9), "tokens", id="tokens"),
        pytest.param(Amount(requests=10, tokens=95), "requests", id="requests"),
    ],
)
def test_the_meter_that_is_furthest_is_named(spent, meter):
    seen = []
    budget = Budget(dollars=1, tokens=100, requests=10, on_warning=seen.append)
    counter = budget.book.counter(None)

    counter.warn(counter.account_at(NOON), Balance(spent))

    assert seen[0].meter == meter
