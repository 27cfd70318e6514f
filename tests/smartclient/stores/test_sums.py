"""Counts that cannot be kept exactly are refused before a store is asked."""

from __future__ import annotations

import pytest

from smartclient.stores import Amount, Reserve
from smartclient.stores.sums import MOST, balance, booked, check
from tests.smartclient.stores.contract import AT, account, settle


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        pytest.param(-1, ValueError, "tokens must be from 0 to 9,007,199,254,740,992", id="less"),
        pytest.param(MOST + 1, ValueError, "a store cannot count exactly", id="more"),
        pytest.param(1.5, TypeError, "tokens must be a whole number, not 1.5", id="half"),
        pytest.param(True, TypeError, "tokens must be a whole number, not True", id="bool"),
    ],
)
def test_an_amount_that_cannot_be_is_refused(number, kind, message):
    with pytest.raises(kind, match=message):
        check(Reserve((account(),), Amount(tokens=number), AT))


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        pytest.param({"held": -1}, "held.tokens must be from 0", id="held-less-than-nothing"),
        pytest.param({"spent": MOST + 1}, "spent.tokens must be from -9,007", id="spent-too-much"),
    ],
)
def test_a_settlement_that_cannot_be_is_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        check(settle("a", account(), **counts))


@pytest.mark.parametrize(
    ("spent", "after"),
    [
        pytest.param(MOST, MOST, id="no-more-than-can-be-counted"),
        pytest.param(-30, 0, id="no-less-than-nothing"),
        pytest.param(-3, 7, id="corrected"),
    ],
)
def test_what_is_spent_stays_within_what_can_be_counted(spent, after):
    (booking,) = settle("a", account(), spent=spent).bookings

    row = booked((0, 10, 0, 0, 0, 0), booking, lets_go=True)

    assert balance(row).spent == Amount(tokens=after)
