"""What cannot be is refused where it is given, and the message says where that is."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from smartclient import catalog
from smartclient.catalog.records import flaw_of

TIER = {"above": 100, "input": 2, "output": 4}


def prices(**fields):
    return {"prices": {"input": 1, "output": 2, **fields}}


REFUSED = {
    "negative": (prices(input=-1), "prices.input must be at least 0, not -1"),
    "nan": (prices(input=float("nan")), "prices.input must be a finite number, not nan"),
    "infinite": (prices(output=float("inf")), "prices.output must be a finite number, not inf"),
    "decimal-nan": (prices(input=Decimal("NaN")), "prices.input must be a finite number, not NaN"),
    "text": (prices(input="3.00"), "prices.input must be a number, not '3.00'"),
    "a-flag": (prices(input=True), "prices.input must be a number, not True"),
    "negative-deep": (
        prices(cache_write={"5m": -2}),
        "prices.cache_write.5m must be at least 0, not -2",
    ),
    "negative-in-tier": (
        prices(tiers=[{**TIER, "output": -4}]),
        "prices.tiers[0].output must be at least 0, not -4",
    ),
    "negative-fine-tuned": (
        {"fine_tuned": {"input": -1, "output": 1}},
        "fine_tuned.input must be at least 0, not -1",
    ),
    "free-by-factor": (
        prices(batch={"multiplier": 0}),
        "prices.batch.multiplier must be above 0; for what costs nothing set the prices to 0",
    ),
    "no-geo": (
        prices(geos={"us": 0}),
        "prices.geos.us must be above 0; for what costs nothing set the prices to 0",
    ),
    "per-token": (
        prices(input=Decimal("0.0000000000003")),
        "prices.input must be below 10^12, with 12 decimals at most, not 3E-13",
    ),
    "huge": (
        prices(input=10**12),
        "prices.input must be below 10^12, with 12 decimals at most, not 1000000000000",
    ),
    "no-output": (
        {"prices": {"input": 1}},
        "prices.output is missing; give it beside input, or no prices at all",
    ),
    "no-input": (
        {"prices": {"output": 1}},
        "prices.input is missing; give it beside output, or no prices at all",
    ),
    "hole-in-tier": (
        prices(cache_read=0.1, tiers=[TIER]),
        "prices.tiers[0].cache_read is missing; give all that prices has, or none if unknown",
    ),
    "hole-in-writes": (
        prices(cache_write={"5m": 1, "1h": 2}, tiers=[{**TIER, "cache_write": {"5m": 2}}]),
        "prices.tiers[0].cache_write.1h is missing; give all that prices has, or none if unknown",
    ),
    "hole-in-mode": (
        prices(service_tiers={"flex": {"input": 1}}),
        "prices.service_tiers.flex needs a multiplier, or both input and output",
    ),
    "empty-speed": (
        prices(speeds={"fast": {}}),
        "prices.speeds.fast needs a multiplier, or both input and output",
    ),
    "hole-in-tier-of-mode": (
        prices(batch={"multiplier": 0.5, "tiers": [{"above": 9, "input": 1}]}),
        "prices.batch.tiers[0].output is missing; give all that prices has, or none if unknown",
    ),
    "falling-tiers": (
        prices(tiers=[TIER, {**TIER, "above": 50}]),
        "prices.tiers[1].above must be more than 100, not 50: tiers rise",
    ),
    "tier-above-nothing": (
        prices(tiers=[{**TIER, "above": 0}]),
        "prices.tiers[0].above must be more than 0, not 0: tiers rise",
    ),
    "other-scope": (
        prices(tiers=[{**TIER, "scope": "the_rest"}]),
        "prices.tiers[0].scope: invalid enum value 'the_rest'",
    ),
    "unknown-field": (
        prices(inptu=1),
        "there is no field prices.inptu; did you mean 'input'?",
    ),
    "unknown-field-outside": (
        {"contxt_window": 1},
        "there is no field contxt_window; did you mean 'context_window'?",
    ),
    "unlike-any-field": ({"qqq": 1}, "there is no field qqq"),
    "wrong-type": (
        {"context_window": "big"},
        "context_window: expected `int | null`, got `str`",
    ),
    "prices-are-a-number": ({"prices": 3}, "prices must be a mapping of fields, not 3"),
    "aliases-are-text": ({"aliases": "abc"}, "aliases: expected `array`, got `str`"),
    "zero-window": (
        {"context_window": 0},
        "context_window must be at least 1 token, not 0; leave it out if unknown",
    ),
    "zero-ttl": ({"cache_ttls": {"5m": 0}}, "cache_ttls.5m must be at least 1 s, not 0"),
    "no-day": (
        {"as_of": "November"},
        "as_of must be a day such as 2026-11-29, not 'November'",
    ),
    "no-month": (
        {"retires_on": "2026-13-01"},
        "retires_on must be a day such as 2026-11-29, not '2026-13-01'",
    ),
}


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_by_its_name(given, message):
    expected = re.escape(f"override(): model 'm': {message}")

    with pytest.raises(ValueError, match=f"^{expected}$"):
        catalog.override({"m": given})


def test_a_price_of_nothing_is_a_price():
    facts = catalog.override({"m": prices(input=0, output=0)}).model("m")

    assert facts.prices.input == 0


def test_a_tier_without_prices_says_that_they_are_unknown():
    facts = catalog.override({"m": prices(cache_read=1, tiers=[{"above": 100}])}).model("m")

    assert facts.prices.tiers[0].input is None


def test_a_float_is_the_decimal_that_was_written():
    facts = catalog.override({"m": prices(input=0.1, output=0.3)}).model("m")

    assert (facts.prices.input, facts.prices.output) == (Decimal("0.1"), Decimal("0.3"))


def test_tiers_are_replaced_as_a_whole():
    mine = catalog.override({"m": prices(tiers=[TIER, {**TIER, "above": 200}])})

    changed = mine.override({"m": {"prices": {"tiers": [{**TIER, "above": 300}]}}})

    assert [tier.above for tier in changed.model("m").prices.tiers] == [300]


@pytest.mark.parametrize("record", list(catalog.builtin()), ids=lambda record: record.name)
def test_our_own_records_hold_what_we_ask_of_others(record):
    assert flaw_of(record) is None
