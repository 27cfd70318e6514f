"""What the attempts of one call used and cost together."""

from __future__ import annotations

from decimal import Decimal

import pytest

from smartclient._bill import bill_of, dollars
from smartclient.catalog import Cost
from smartclient.report import AttemptReport
from smartclient.wire import Usage


def an_attempt(number=1, **facts):
    ordinary = {
        "number": number,
        "origin": "http://a:1",
        "start": 0.0,
        "duration": 1.0,
        "status": 200,
        "error": None,
        "maybe_processed": False,
        "reused": False,
        "stages": {},
        "model": "m",
    }
    return AttemptReport(**(ordinary | facts))


def paid(number=1, amount="0.1", *, tokens=5):
    cost = Cost(model="m", total=Decimal(amount))
    return an_attempt(number, usage=Usage(uncached=tokens, output=1), priced=cost)


def cut(number=1, amount="0.1"):
    """An attempt of which only the least that it cost is known."""
    usage = Usage(uncached=5, output=1, is_final=False)
    cost = Cost(model="m", uncached=Decimal(amount), missing=("final output tokens",))
    return an_attempt(number, usage=usage, priced=cost)


REFUSED = an_attempt(status=429)
UNSENT = an_attempt(status=None, error="connect")
LOST = an_attempt(status=None, error="read_timeout", maybe_processed=True)


def test_attempts_are_added_exactly():
    bill = bill_of([paid(1, "0.1"), paid(2, "0.2", tokens=7)])

    assert (bill.total, bill.at_least, bill.missing) == (Decimal("0.3"), Decimal("0.3"), ())
    assert bill.usage == Usage(uncached=12, output=2)


@pytest.mark.parametrize(
    "free", [REFUSED, UNSENT, an_attempt(status=503)], ids=["refused", "unsent", "server-error"]
)
def test_what_no_provider_bills_costs_nothing(free):
    assert bill_of([free, paid(2)]).total == Decimal("0.1")
    assert bill_of([free]).total == 0


def test_a_call_without_any_attempt_costs_nothing():
    assert bill_of([]).total == 0


@pytest.mark.parametrize(
    ("attempts", "missing"),
    [
        pytest.param([an_attempt()], ("usage",), id="no-usage-told"),
        pytest.param(
            [LOST, paid(2)], ("attempt 1: usage, if it was processed",), id="maybe-processed"
        ),
        pytest.param(
            [cut(1), paid(2)], ("attempt 1: final output tokens",), id="an-attempt-was-cut"
        ),
        pytest.param([an_attempt(usage=Usage(uncached=1))], ("prices of 'm'",), id="unknown-model"),
        pytest.param([an_attempt(usage=Usage(uncached=1), model=None)], ("model",), id="no-model"),
    ],
)
def test_as_long_as_something_is_missing_the_total_is_unknown(attempts, missing):
    bill = bill_of(attempts)

    assert (bill.total, bill.missing) == (None, missing)


@pytest.mark.parametrize(
    ("attempts", "at_least"),
    [
        pytest.param([cut(1), paid(2, "0.2")], "0.3", id="a-cut-one-counts"),
        pytest.param([LOST, paid(2)], "0.1", id="a-lost-one-may-be-free"),
        pytest.param([an_attempt()], None, id="nothing-known-is-not-nothing"),
        pytest.param([an_attempt(usage=Usage(uncached=1))], None, id="unknown-model"),
        pytest.param([an_attempt(1, usage=Usage(uncached=1)), paid(2)], "0.1", id="one-of-two"),
    ],
)
def test_what_is_known_is_told_all_the_same(attempts, at_least):
    assert bill_of(attempts).at_least == (at_least and Decimal(at_least))


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0.0, "$0"),
        (0.0132, "$0.0132"),
        (1234.5, "$1,234.5000"),
        (0.001, "$0.0010"),
        (0.00012345, "$0.00012"),
        (0.0000006, "$0.00000060"),
        (-0.003, "-$0.0030"),
    ],
)
def test_small_amounts_keep_two_digits(amount, shown):
    assert dollars(amount) == shown
