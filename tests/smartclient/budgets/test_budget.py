"""A budget as it is stated, and how it is read."""

from __future__ import annotations

from decimal import Decimal
from math import inf, nan

import pytest

import smartclient
from smartclient.budgets import Budget, Downgrade, budgets_of
from smartclient.stores import MemoryStore
from tests.smartclient.fakes import ASYNCIO

NOON = 1_700_049_600.0  # Wed, 15 Nov 2023 12:00:00 GMT


def test_it_is_reached_by_the_name_of_the_package():
    assert smartclient.Budget is Budget
    assert smartclient.budgets.Downgrade is Downgrade


class Odd:
    """Compares as an array does: with no yes or no."""

    __hash__ = None

    def __eq__(self, other):
        raise ValueError("the truth value is ambiguous")


@pytest.mark.parametrize(
    ("given", "dollars"),
    [
        pytest.param(2, "2", id="int"),
        pytest.param(0.1, "0.1", id="a-float-as-it-is-written"),
        pytest.param("2.50", "2.50", id="text"),
        pytest.param(Decimal("0.000000001"), "1E-9", id="a-nanodollar"),
    ],
)
def test_dollars_are_kept_exactly(given, dollars):
    assert Budget(dollars=given).dollars == Decimal(dollars)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        pytest.param({}, ValueError, "'budget' limits nothing; give dollars", id="no-limit"),
        pytest.param({"dollars": 0}, ValueError, "at least 0.000000001 and", id="no-dollars"),
        pytest.param({"dollars": -1}, ValueError, "not -1", id="negative"),
        pytest.param({"dollars": nan}, ValueError, "not nan", id="nan"),
        pytest.param({"dollars": inf}, ValueError, "not inf", id="infinite"),
        pytest.param({"dollars": 9_007_200}, ValueError, "at most 9,007,199", id="too-many"),
        pytest.param({"dollars": "much"}, ValueError, "such as 2.50, not 'much'", id="a-word"),
        pytest.param({"dollars": True}, TypeError, "a number, not bool", id="dollars-bool"),
        pytest.param({"tokens": 0}, ValueError, "tokens must be at least 1", id="no-tokens"),
        pytest.param({"tokens": 1.5}, TypeError, "a whole number, not float", id="half-a-token"),
        pytest.param({"requests": True}, TypeError, "whole number, not bool", id="requests-bool"),
        pytest.param({"requests": 2**60}, ValueError, "at most 9,007,199,254", id="requests-many"),
        pytest.param({"tokens": 1, "per": 0}, ValueError, "at least 1 s", id="window-of-nothing"),
        pytest.param({"tokens": 1, "per": "week"}, ValueError, "one of minute, hour", id="week"),
        pytest.param({"tokens": 1, "per": b"day"}, TypeError, "one of minute, hour", id="bytes"),
        pytest.param({"tokens": 1, "per": inf}, ValueError, "not inf", id="endless"),
        pytest.param({"tokens": 1, "per": 10**400}, ValueError, "not more", id="window-huge"),
        pytest.param({"tokens": 10**5000}, ValueError, "not more digits", id="tokens-huge"),
        pytest.param({"dollars": 10**5000}, ValueError, r"not 1.000e\+5000", id="dollars-huge"),
        pytest.param({"dollars": "9" * 5000}, ValueError, r"not 1.000e\+5000", id="dollars-long"),
        pytest.param({"tokens": 1, "warn_at": [10**400]}, ValueError, "not more", id="share-huge"),
        pytest.param(
            {"tokens": 1, "on_limit": "wait", "max_wait": 10**400}, ValueError, "more", id="wait-on"
        ),
        pytest.param({"tokens": 1, "on_limit": Odd()}, ValueError, "on_limit must", id="odd-limit"),
        pytest.param(
            {"tokens": 1, "on_store_failure": Odd()}, ValueError, "on_store_fail", id="odd-failure"
        ),
        pytest.param(
            {"dollars": 1, "unknown_price": Odd()}, ValueError, "unknown_price", id="odd-price"
        ),
        pytest.param(
            {"tokens": 50, "on_limit": Downgrade(max_tokens=50)},
            ValueError,
            "none could ever be cut down to fit",
            id="downgrade-never",
        ),
        pytest.param({"tokens": 1, "name": ""}, ValueError, "1 to 200", id="no-name"),
        pytest.param({"tokens": 1, "name": 5}, TypeError, "name must be text", id="name"),
        pytest.param({"tokens": 1, "per_tag": 1}, TypeError, "per_tag must be", id="per-tag"),
        pytest.param({"tokens": 1, "on_limit": "stop"}, ValueError, "on_limit must", id="on-limit"),
        pytest.param(
            {"requests": 1, "on_limit": Downgrade(max_tokens=5)},
            ValueError,
            "limits requests alone",
            id="downgrade-of-requests",
        ),
        pytest.param({"tokens": 1, "max_wait": 5}, ValueError, "no effect without", id="no-wait"),
        pytest.param(
            {"tokens": 1, "on_limit": "wait", "max_wait": 0}, ValueError, "above 0 s", id="wait-0"
        ),
        pytest.param(
            {"tokens": 1, "on_limit": "wait", "max_wait": "5"}, TypeError, "seconds", id="wait-text"
        ),
        pytest.param({"tokens": 1, "warn_at": 0.8}, TypeError, "list of shares", id="one-share"),
        pytest.param({"tokens": 1, "warn_at": [0]}, ValueError, "above 0 and", id="share-of-0"),
        pytest.param({"tokens": 1, "warn_at": [80]}, ValueError, "not 80", id="percent"),
        pytest.param({"tokens": 1, "warn_at": ["1"]}, TypeError, "hold numbers", id="share-text"),
        pytest.param({"tokens": 1, "on_warning": 5}, TypeError, "callable", id="on-warning"),
        pytest.param(
            {"tokens": 1, "on_warning": print, "warn_at": ()}, ValueError, "never", id="unheard"
        ),
        pytest.param({"tokens": 1, "store": 5}, TypeError, "a Store, not int", id="store"),
        pytest.param(
            {"tokens": 1, "on_store_failure": "no"}, ValueError, "on_store_failure", id="failure"
        ),
        pytest.param(
            {"dollars": 1, "unknown_price": "no"}, ValueError, "unknown_price must", id="price"
        ),
        pytest.param(
            {"tokens": 1, "unknown_price": "allow"}, ValueError, "without dollars", id="no-price"
        ),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_given(given, error, message):
    with pytest.raises(error, match=message):
        Budget(**given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        pytest.param({}, ValueError, "changes nothing", id="nothing"),
        pytest.param({"max_tokens": 0}, ValueError, "at least 1", id="no-answer"),
        pytest.param({"model": " "}, ValueError, "must name one", id="no-name"),
        pytest.param({"model": 5}, TypeError, "must be text", id="no-text"),
    ],
)
def test_a_downgrade_changes_something(given, error, message):
    with pytest.raises(error, match=message):
        Downgrade(**given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        pytest.param(Budget(tokens=1), TypeError, "a list of Budget, not Budget", id="one"),
        pytest.param([5], TypeError, "must hold Budget, not int", id="a-number"),
    ],
)
def test_a_client_takes_a_list_of_budgets(given, error, message):
    with pytest.raises(error, match=message):
        budgets_of(given)


def test_a_client_takes_each_budget_once():
    budget = Budget(tokens=1)

    assert budgets_of([budget, Budget(tokens=1)])
    with pytest.raises(ValueError, match="given twice"):
        budgets_of([budget, budget])


def test_a_budget_counts_by_itself_unless_it_is_given_a_store():
    store = MemoryStore()

    assert Budget(tokens=1).store is not Budget(tokens=1).store
    assert Budget(tokens=1, store=store).store is Budget(tokens=1, store=store).store


@pytest.mark.parametrize(
    ("given", "is_open"),
    [
        pytest.param({"dollars": 1}, False, id="money-is-closed"),
        pytest.param({"dollars": 1, "on_store_failure": "allow"}, True, id="unless-told"),
        pytest.param({"tokens": 1}, True, id="the-rest-is-open"),
        pytest.param({"tokens": 1, "on_store_failure": "refuse"}, False, id="unless-told-so"),
    ],
)
def test_money_is_not_spent_uncounted(given, is_open):
    assert Budget(**given).is_open_on_failure is is_open


def test_its_state_is_told_in_the_users_units():
    state = Budget(name="app", dollars=2, requests=5, per="hour").state(at=NOON + 5)

    assert (state.budget, state.tag, state.resets_at) == ("app", None, NOON + 3600)
    assert state.limit == state.left == {"dollars": 2.0, "requests": 5}
    assert state.spent == state.held == {"dollars": 0.0, "tokens": 0, "requests": 0}


def test_its_state_can_be_awaited():
    budget = Budget(tokens=5, per_tag=True)

    state = ASYNCIO.do(budget.state_async("user", at=NOON))

    assert (state.tag, state.left, state.resets_at) == ("user", {"tokens": 5}, None)


def test_what_is_left_has_a_name_of_its_own():
    assert Budget(tokens=5).left() == {"tokens": 5}


def test_only_a_budget_per_tag_has_a_state_for_one():
    with pytest.raises(ValueError, match="counts all tags together"):
        Budget(tokens=5).state("user")
