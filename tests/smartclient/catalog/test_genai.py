"""Another price list beside ours: read as ours, and where the two disagree."""

from __future__ import annotations

import sys
from decimal import Decimal
from functools import cache

import pytest
from genai_prices import data_snapshot
from genai_prices.data_snapshot import DataSnapshot
from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice, PriceVariant, Provider

from smartclient import catalog
from smartclient.catalog import cost
from smartclient.wire import Usage

HERE = catalog.builtin()
TOLERANCE = Decimal("0.02")

REQUESTS = {
    "input": Usage(uncached=1000, output=0),
    "output": Usage(uncached=0, output=1000),
    "cache_read": Usage(uncached=0, cache_read=1000, output=0),
    "cache_write.5m": Usage(uncached=0, cache_write={"5m": 1000}, output=0),
    "cache_write.1h": Usage(uncached=0, cache_write={"1h": 1000}, output=0),
    "cache_write.30m": Usage(uncached=0, cache_write={"30m": 1000}, output=0),
    "long input": Usage(uncached=300_000, output=0),
    "long output": Usage(uncached=300_000, output=300_000),
    "long cache_read": Usage(uncached=0, cache_read=300_000, output=0),
}
WAYS = {
    "standard": {},
    "batch": {"batch": True},
    "flex": {"service_tier": "flex"},
    "priority": {"service_tier": "priority"},
    "fast": {"speed": "fast"},
}

# Model, way, and why we keep our price. An entry that no longer differs fails the test.
EXPLAINED = {
    ("claude-sonnet-4-5", "standard"): "they keep a tier of before 2026-04-30; such are refused",
    ("claude-sonnet-4-5", "batch"): "likewise",
    ("gpt-5.5-pro", "batch"): "they have no rise above 272,000 tokens; litellm has one",
}


@cache
def theirs():
    return catalog.from_genai_prices()


def differences():
    """Model, way, request and both prices, wherever both lists know one and disagree."""
    for ours in HERE:
        other = theirs().model(ours.name)
        for way, how in WAYS.items():
            for part, used in REQUESTS.items():
                mine, their = cost(used, ours, **how).total, cost(used, other, **how).total
                if mine and their and abs(mine - their) / their > TOLERANCE:
                    yield ours.name, way, part, mine, their


def test_the_lists_agree_but_for_what_is_explained():
    unexplained = [found for found in differences() if found[:2] not in EXPLAINED]

    assert unexplained == []


def test_every_explanation_is_still_needed():
    assert set(EXPLAINED) <= {(name, way) for name, way, *_ in differences()}


def test_a_disagreement_would_be_seen(monkeypatch):
    changed = HERE.override({"gpt-4.1": {"prices": {"output": 8.2}}})
    monkeypatch.setattr(sys.modules[__name__], "HERE", changed)

    assert ("gpt-4.1", "standard", "output") in [found[:3] for found in differences()]


def test_most_of_ours_are_compared():
    compared = [one for one in HERE if theirs().model(one.name).source != one.source]

    assert len(compared) >= 55


def test_their_prices_stand_over_our_facts():
    facts = theirs().model("claude-haiku-5-5")

    [tier] = facts.prices.tiers
    assert (tier.above, tier.cache_write["1h"]) == (100_000, 1)
    assert facts.prices.batch.tiers[0].input == Decimal("0.25")
    assert (facts.min_cache_tokens, facts.prices.geos["us"]) == (512, Decimal("1.1"))
    assert facts.source.startswith("genai-prices 0.2.3 over ")
    assert facts.as_of is None


def test_models_that_only_they_know_are_there():
    facts = theirs().model("claude-3-haiku")

    assert (facts.prices.input, facts.context_window) == (Decimal("0.25"), 200_000)
    assert theirs().model("gpt-5-chat-latest").prices.output == 10


def test_what_is_priced_by_more_than_text_is_left_out():
    assert theirs().model("gpt-realtime") is None


def a_list_of(model, monkeypatch):
    provider = Provider(id="openai", name="OpenAI", api_pattern="", models=[model])
    monkeypatch.setattr(data_snapshot, "get_snapshot", lambda: DataSnapshot([provider], False))
    return catalog.from_genai_prices()


def test_a_price_for_two_conditions_at_once_is_left_out(monkeypatch):
    price = ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2))
    both = PriceVariant({"processing": "batch", "speed": "fast"}, price)
    model = ModelInfo("m", ClauseEquals("m"), prices=price, price_variants=[both])

    facts = a_list_of(model, monkeypatch).model("m")

    assert (facts.prices.batch, facts.prices.speeds, facts.prices.output) == (None, {}, 2)


def test_a_model_with_a_hole_in_its_prices_is_left_out(monkeypatch):
    model = ModelInfo("m", ClauseEquals("m"), prices=ModelPrice(input_mtok=Decimal(1)))

    assert a_list_of(model, monkeypatch).model("m") is None


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)

    with pytest.raises(ImportError, match=r"install smartclient\[prices\]$"):
        catalog.from_genai_prices()
