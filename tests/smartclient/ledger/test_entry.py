"""What a ledger keeps of a report."""

from __future__ import annotations

from decimal import Decimal

import pytest

from smartclient.ledger.entry import entry_of
from smartclient.wire import Usage
from tests.smartclient.ledger.entries import NOON, a_report, an_attempt


def test_a_call_is_kept_with_its_exact_cost():
    entry = entry_of(a_report(), at=NOON)

    assert (entry.at, entry.day, entry.attempts) == (NOON, "2026-11-29", 1)
    assert (entry.uncached, entry.cache_read, entry.cache_write, entry.output) == (1000, 0, {}, 10)
    assert entry.cost == Decimal("0.00525")  # 1,000 at $5 and 10 at $25 for a million
    assert (entry.at_least, entry.missing) == (entry.cost, ())


def test_a_cost_that_nobody_knows_is_none_and_says_why(caplog):
    entry = entry_of(a_report(model="of-tomorrow"), at=NOON)

    assert (entry.cost, entry.at_least, entry.missing) == (None, None, ("prices of 'of-tomorrow'",))


def test_a_part_without_a_price_is_named():
    usage = Usage(uncached=1, cache_read=1, output=1)

    entry = entry_of(a_report(model="gpt-6.2-sol", usage=usage), at=NOON)

    assert (entry.cost, entry.missing) == (None, ("price of cache_read",))


@pytest.mark.parametrize(
    ("fields", "is_unpriced"),
    [
        pytest.param({"status": 200}, True, id="counts-never-came"),
        pytest.param({"status": 429, "error": "rate_limited"}, False, id="refused-by-the-provider"),
        pytest.param({"status": None, "attempts": []}, False, id="refused-by-us"),
        pytest.param(
            {"attempts": [an_attempt(status=None, maybe_processed=True)]}, True, id="no-answer"
        ),
    ],
)
def test_a_call_without_counts_is_unpriced_where_work_may_have_been_done(fields, is_unpriced):
    entry = entry_of(a_report(usage=None, **fields), at=NOON)

    assert (entry.cost, bool(entry.missing)) == (None if is_unpriced else 0, is_unpriced)


def test_of_a_cut_reply_the_least_is_known():
    usage = Usage(uncached=1000, cache_read=0, cache_write={}, output=10, is_final=False)

    entry = entry_of(a_report(usage=usage, error="cut"), at=NOON)

    assert (entry.partial, entry.cost, entry.at_least) == (True, None, Decimal("0.00525"))
    assert entry.missing != ()


def test_counts_that_cannot_be_are_marked():
    usage = Usage(uncached=1, output=1, inconsistent="they contradict each other")

    assert entry_of(a_report(usage=usage), at=NOON).inconsistent


def test_names_from_outside_are_cut_and_can_be_written():
    entry = entry_of(a_report(model="x" * 5000, request_id="\ud800", usage=None), at=NOON)

    assert (entry.model, entry.request_id) == ("x" * 200, "?")
