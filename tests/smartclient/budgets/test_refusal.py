"""Why a call is not sent: with numbers, and what to do."""

from __future__ import annotations

import copy
import pickle

import pytest

from smartclient import BudgetExceededError, RefusedError
from smartclient.budgets import Budget
from smartclient.budgets.refusal import exceeded, not_counted, unpriced
from smartclient.stores import Amount, Balance, StoreError

NOON = 1_700_049_600.0
BALANCE = Balance(
    Amount(tokens=800, nanodollars=750_000_000, requests=4),
    Amount(tokens=100, nanodollars=1, requests=1),
)


def error(meter, amount, tag=None, waited=0.0, **given):
    counter = Budget(name="app", **given).book.counter(tag)
    return exceeded(
        counter, counter.account_at(NOON), BALANCE, meter, amount, now=NOON, waited=waited
    )


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param(
            error("tokens", Amount(tokens=101), tokens=1000, per="hour"),
            "not sent: budget 'app' allows 1,000 tokens an hour, less 800 tokens spent and "
            "100 tokens held by calls that are still out; this call may use 101 tokens (lower "
            "max_tokens, shorten the input, or raise the budget, or wait 3,600 s until it renews)",
            id="tokens",
        ),
        pytest.param(
            error("nanodollars", Amount(nanodollars=250_000_000), dollars=1, waited=2.0),
            "not sent: budget 'app' allows $1.00 in all, less $0.75 spent and $0.000000001 "
            "held by calls that are still out after 2.0 s; this call may use $0.25 (lower "
            "max_tokens, shorten the input, or raise the budget)",
            id="dollars",
        ),
        pytest.param(
            error("requests", Amount(requests=1), "ann", requests=5, per="day", per_tag=True),
            "not sent: budget 'app' allows 5 requests for tag 'ann' a day, less 4 requests "
            "spent and 1 request held by calls that are still out; this call may use 1 request "
            "(raise the budget, or wait 43,200 s until it renews)",
            id="requests",
        ),
        pytest.param(
            error("tokens", Amount(tokens=1001), tokens=1000, per="hour"),
            "not sent: this call may use 1,001 tokens, and budget 'app' allows 1,000 tokens an "
            "hour, so it can never fit (lower max_tokens, shorten the input, or raise the budget)",
            id="never",
        ),
    ],
)
def test_a_refusal_tells_the_numbers_and_what_to_do(found, message):
    assert str(found) == message


def test_its_facts_are_attributes():
    found = error("nanodollars", Amount(nanodollars=500_000_000), dollars=1, per="hour")

    assert (found.budget, found.meter, found.tag) == ("app", "dollars", None)
    assert (found.limit, found.spent, found.held, found.asked) == (1.0, 0.75, 1e-9, 0.5)
    assert (found.resets_at, found.status) == (NOON + 3600, 402)


@pytest.mark.parametrize("copied", [copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_pickles(copied):
    found = error("tokens", Amount(tokens=101), tokens=1000)

    again = copied(found)

    assert type(again) is BudgetExceededError
    assert (str(again), again.__dict__) == (str(found), found.__dict__)


def test_an_unknown_price_says_how_it_could_be_known():
    found = unpriced(Budget(name="app", dollars=1), "mine")

    assert type(found) is RefusedError
    assert "what 'mine' costs" in str(found)
    assert found.status == 402


def test_a_store_that_cannot_be_reached_says_why():
    found = not_counted(Budget(name="app", dollars=1), StoreError("no route to redis"))

    assert "the store of budget 'app' cannot be reached (no route to redis)" in str(found)
    assert found.status == 503
