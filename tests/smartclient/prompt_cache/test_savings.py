"""Dollars that the cache saved, against sums by hand from the price lists of November 2026."""

from __future__ import annotations

from decimal import Decimal, localcontext

import msgspec
import pytest

from smartclient import catalog
from smartclient.prompt_cache import savings
from smartclient.wire import Served, Usage

READ = Usage(uncached=100, cache_read=10_000, output=500)
WRITTEN = Usage(uncached=100, cache_write={"5m": 10_000}, output=500)
LONG = Usage(uncached=100, cache_write={"1h": 10_000}, output=500)
OPENAI = Usage(uncached=100, cache_read=8_000, cache_write={"30m": 2_000}, output=500)


@pytest.mark.parametrize(
    ("model", "usage", "served", "dollars"),
    [
        pytest.param("claude-sonnet-4-5", READ, {}, "0.027", id="read"),  # 10k at 3 less 0.3
        pytest.param("claude-sonnet-4-5", WRITTEN, {}, "-0.0075", id="written"),  # 3 less 3.75
        pytest.param("claude-sonnet-4-5", LONG, {}, "-0.03", id="written-for-an-hour"),
        pytest.param("claude-sonnet-4-5", READ, {"service_tier": "batch"}, "0.0135", id="batch"),
        pytest.param("claude-sonnet-4-5", Usage(uncached=9, output=9), {}, "0", id="no-cache"),
    ],
)
def test_savings_are_net_of_what_writing_costs(model, usage, served, dollars):
    saved = savings(usage, catalog.model(model), served=Served(**served))

    assert saved == Decimal(dollars)


def test_what_a_cut_answer_saved_is_known():
    """Its input is, and its output has no part in it."""
    cut = msgspec.structs.replace(READ, is_final=False)

    assert savings(cut, catalog.model("claude-sonnet-4-5")) == Decimal("0.027")


def test_tiers_of_long_requests_are_those_of_the_request():
    facts = catalog.model("gpt-6.1-sol")
    usage = Usage(uncached=1_000, cache_read=300_000, output=10)
    tier = facts.prices.tiers[0]

    saved = savings(usage, facts)

    assert saved == 300_000 * (tier.input - tier.cache_read) / 1_000_000


def test_openai_pays_for_writes_too():
    prices = catalog.model("gpt-5.6-sol").prices

    saved = savings(OPENAI, catalog.model("gpt-5.6-sol"))

    read, write = prices.cache_read, prices.cache_write["30m"]
    assert saved == (8_000 * (prices.input - read) + 2_000 * (prices.input - write)) / 1_000_000


@pytest.mark.parametrize(
    ("usage", "facts"),
    [
        pytest.param(None, catalog.model("claude-sonnet-4-5"), id="no-usage"),
        pytest.param(READ, None, id="no-facts"),
        pytest.param(Usage(output=3), catalog.model("claude-sonnet-4-5"), id="no-input"),
        pytest.param(
            Usage(uncached=1, cache_write={"9h": 5}, output=1),
            catalog.model("claude-sonnet-4-5"),
            id="no-price",
        ),
    ],
)
def test_what_is_unknown_stays_unknown(usage, facts):
    assert savings(usage, facts) is None


def test_a_program_that_counts_with_few_digits_changes_nothing():
    with localcontext() as context:
        context.prec = 2

        assert savings(READ, catalog.model("claude-sonnet-4-5")) == Decimal("0.027")


@pytest.mark.parametrize(
    ("usage", "facts", "told"),
    [({"input_tokens": 3}, None, "usage must be"), (READ, "claude-sonnet-4-5", "facts must be")],
)
def test_a_name_or_a_mapping_is_refused(usage, facts, told):
    with pytest.raises(TypeError, match=told):
        savings(usage, facts)
