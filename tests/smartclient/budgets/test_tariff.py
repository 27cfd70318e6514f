"""Prices in whole numbers: the same as the catalog's decimals, rounded up once."""

from __future__ import annotations

from decimal import Decimal
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient import catalog
from smartclient.budgets.tariff import tariff_of
from smartclient.wire import Usage

MODELS = [one for one in catalog.builtin() if one.prices is not None]
HOW = [
    pytest.param({}, id="as-usual"),
    pytest.param({"service_tier": "flex"}, id="flex"),
    pytest.param({"service_tier": "priority"}, id="priority"),
    pytest.param({"geo": "us"}, id="us"),
    pytest.param({"speed": "fast"}, id="fast"),
]
COUNTS = st.integers(0, 400_000)


def nanodollars(usage, facts, **how):
    total = catalog.cost(usage, facts, **how).total
    return None if total is None else ceil(total * 10**9)


@pytest.mark.parametrize("how", HOW)
@given(st.sampled_from(MODELS), COUNTS, COUNTS, COUNTS, COUNTS)
def test_a_cost_is_the_catalogs_rounded_up(how, facts, uncached, read, written, output):
    tariff = tariff_of(facts, **how)
    ttl = next(iter(facts.prices.cache_write), None)
    writes = {ttl: written} if ttl else {}
    usage = Usage(uncached=uncached, cache_read=read, cache_write=writes, output=output)

    expected = nanodollars(usage, facts, **how)

    assert expected is None or tariff.cost(usage, output) == expected


@given(st.sampled_from(MODELS), COUNTS, COUNTS, COUNTS, COUNTS)
def test_no_call_costs_more_than_the_most(facts, uncached, read, written, output):
    tariff = tariff_of(facts)
    ttls = [*facts.prices.cache_write, None]
    usages = [
        Usage(uncached=uncached, cache_read=read, cache_write={ttl: written} if ttl else {})
        for ttl in ttls
    ]

    most = [tariff.most(usage.input_tokens, output) for usage in usages] if tariff else []

    assert [tariff.cost(usage, output) for usage in usages if tariff] <= most


@given(st.sampled_from(MODELS), st.integers(0, 10**10), COUNTS)
def test_as_much_output_fits_as_is_paid_for(facts, left, given):
    tariff = tariff_of(facts)
    room = tariff.output_within(left, given) if tariff else -1

    if room >= 0 and room < 2**53:
        assert tariff.most(given, room) <= left < tariff.most(given, room + 1)


def test_output_that_is_free_always_fits():
    mine = catalog.override({"mine": {"prices": {"input": 1, "output": 0}}})
    tariff = tariff_of(mine.model("mine"))

    assert tariff.output_within(1000, 1) == 2**53
    assert tariff.output_within(999, 1) == -1


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        pytest.param({}, {}, id="no-prices"),
        pytest.param({"prices": {"input": 1, "output": 1}}, {"speed": "fast"}, id="no-such-speed"),
        pytest.param({"prices": {"input": 1, "output": 1}}, {"geo": "mars"}, id="no-such-place"),
    ],
)
def test_what_is_not_known_has_no_price(fields, how):
    mine = catalog.override({"mine": fields})

    assert tariff_of(mine.model("mine"), **how) is None
    assert tariff_of(None) is None


def test_an_unknown_price_of_cached_input_is_the_dearest_known():
    prices = {"input": 1, "output": 2, "cache_write": {"5m": 1.25}}
    tariff = tariff_of(catalog.override({"mine": {"prices": prices}}).model("mine"))

    assert tariff.cost(Usage(uncached=0, cache_read=100), 0) == 125_000
    assert tariff.cost(Usage(uncached=0, cache_write={"9h": 100}), 0) == 125_000


def test_prices_may_be_known_for_short_requests_only():
    prices = {"input": 1, "output": 2, "tiers": [{"above": 1000}]}
    tariff = tariff_of(catalog.override({"mine": {"prices": prices}}).model("mine"))

    assert tariff.most(1000, 0) == 1_000_000
    assert tariff.most(1001, 0) is None
    assert tariff.cost(Usage(uncached=2000), 0) == 2_000_000


def test_a_price_below_a_femtodollar_is_rounded_up():
    prices = {"input": Decimal("0.0000000001"), "output": 1}
    tariff = tariff_of(catalog.override({"mine": {"prices": prices}}).model("mine"))

    assert tariff.most(1, 0) == 1
