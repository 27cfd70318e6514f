"""Sums of entries: exact, by each of their columns, in bounded memory."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.ledger import sums
from smartclient.ledger.sums import OTHERS, Sums
from tests.smartclient.ledger.entries import NOON, an_entry

DAY = 86_400.0


def summed(*entries):
    found = Sums()
    for entry in entries:
        found.add(entry)
    return found


def costs(found, by):
    return {key: total.cost for key, total in found.totals(by).items()}


def test_counts_and_money_add_up():
    total = summed(an_entry(), an_entry(error="cut", partial=True, cost=Decimal("2"))).total()

    assert (total.calls, total.failed, total.attempts, total.partial) == (2, 1, 2, 1)
    assert (total.uncached, total.cache_read, total.cache_write) == (10, 6, {"5m": 4})
    assert (total.input_tokens, total.output, total.reasoning) == (20, 2, 2)
    assert total.cost == Decimal("2.001")


def test_a_cache_that_cost_more_than_it_saved_is_shown():
    entries = [an_entry(savings=Decimal(amount)) for amount in ("0.1", "-0.25")]

    assert summed(*entries).total().savings == Decimal("-0.15")


def test_what_is_known_of_a_cost_is_in_the_sum():
    total = summed(an_entry(cost=None, at_least=Decimal("0.2"), missing=("counts",))).total()

    assert (total.cost, total.unpriced) == (Decimal("0.2"), 1)


def test_an_unknown_cost_is_counted_and_not_free():
    total = summed(
        an_entry(), an_entry(cost=None, missing=("prices",)), an_entry(cost=None)
    ).total()

    assert (total.calls, total.unpriced, total.cost) == (3, 1, Decimal("0.001"))


@given(st.lists(st.decimals(0, 1000, places=12), max_size=30))
def test_no_digit_is_lost(amounts):
    total = summed(*(an_entry(cost=amount) for amount in amounts)).total()

    assert total.cost * 10**12 == sum(int(amount * 10**12) for amount in amounts)


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        pytest.param("model", {"a": 1, "b": 2}, id="model"),
        pytest.param("provider", {"anthropic": 3}, id="provider"),
        pytest.param("day", {"2026-11-29": 1, "2026-11-30": 2}, id="day"),
        pytest.param("tag", {"user": 2, "run": 2, None: 1}, id="tag"),
    ],
)
def test_calls_are_grouped_by_a_column(by, keys):
    found = summed(
        an_entry(model="a", cost=Decimal(1)),
        an_entry(model="b", cost=Decimal(2), at=NOON + DAY, tags=("user", "run")),
    )

    assert costs(found, by) == keys


def test_a_tag_inside_itself_counts_once():
    assert summed(an_entry(tags=("a", "a"))).totals("tag")["a"].calls == 1


def test_another_column_is_refused():
    with pytest.raises(
        ValueError, match="by must be one of tag, model, day, provider, not 'colour'"
    ):
        Sums().totals("colour")


def test_endless_tags_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(sums, "_MOST_GROUPS", 3)

    found = summed(*(an_entry(tags=(str(number),)) for number in range(10)))

    assert {key: one.calls for key, one in found.totals("tag").items()} == {
        "0": 1, "1": 1, "2": 1, OTHERS: 7
    }  # fmt: skip
    assert found.total().calls == 10
