"""What a difference costs, in tokens and in dollars."""

from __future__ import annotations

from decimal import Decimal

import pytest

from smartclient import catalog
from smartclient.prompt_cache.difference import Difference
from smartclient.prompt_cache.divergence import Divergence
from smartclient.prompt_cache.lost import lost
from smartclient.prompt_cache.savings import STANDARD
from smartclient.wire import Served, Usage

SONNET = catalog.model("claude-sonnet-4-5")


def at(shared, end):
    difference = Difference(kind="edit", steps=("system",))
    return Divergence(
        difference=difference, tier="system", block=0, shared_bytes=shared, end_bytes=end
    )


def of(found, num_bytes=10_000, **known):
    usual = {"usage": None, "tokens_per_byte": 0.25, "ttl": None, "facts": SONNET}
    return lost(found, num_bytes, **{**usual, "served": STANDARD, **known})


@pytest.mark.parametrize(
    ("ttl", "rate"), [(None, "3"), ("5m", "3.75"), ("1h", "6")], ids=["computed", "5m", "1h"]
)
def test_without_usage_it_is_an_estimate_at_the_rate_of_the_mark(ttl, rate):
    told = of(at(2_000, 8_000), ttl=ttl)

    assert (told.tokens, told.is_estimate, told.is_written) == (1_500, True, ttl is not None)
    assert told.dollars == 1_500 * (Decimal(rate) - Decimal("0.3")) / 1_000_000


def test_usage_gives_the_measure():
    usage = Usage(uncached=100, cache_read=0, cache_write={"5m": 4_900}, output=1)

    told = of(at(2_000, 8_000), usage=usage)

    assert (told.tokens, told.is_estimate, told.is_written) == (3_000, False, True)


def test_what_was_written_for_longest_stands_first():
    usage = Usage(uncached=0, cache_read=0, cache_write={"5m": 500, "1h": 500}, output=1)

    told = of(at(0, 6_000), usage=usage)

    saved = 500 * (Decimal(6) - Decimal("0.3")) + 100 * (Decimal("3.75") - Decimal("0.3"))
    assert (told.tokens, told.dollars) == (600, saved / 1_000_000)


def test_what_was_not_kept_is_lost_last():
    usage = Usage(uncached=600, cache_read=0, cache_write={"5m": 400}, output=1)

    told = of(at(0, 10_000), usage=usage)

    saved = 400 * (Decimal("3.75") - Decimal("0.3")) + 600 * (Decimal(3) - Decimal("0.3"))
    assert told.dollars == saved / 1_000_000


def test_prices_are_those_of_how_it_was_served():
    ways = (STANDARD, Served(service_tier="batch"))

    usual, batch = (of(at(0, 8_000), served=one) for one in ways)

    assert batch.dollars * 2 == usual.dollars


@pytest.mark.parametrize(
    ("usage", "facts"),
    [
        pytest.param(None, None, id="no-facts"),
        pytest.param(None, catalog.model("gpt-4.1"), id="no-price-for-writing"),
    ],
)
def test_dollars_are_unknown_where_a_price_is(usage, facts):
    told = of(at(0, 8_000), usage=usage, facts=facts, ttl="5m")

    assert (told.tokens, told.dollars) == (2_000, None)


def test_a_stream_that_was_cut_before_its_output_was_counted_has_a_price():
    usage = Usage(uncached=1_000, cache_read=0)

    assert of(at(0, 10_000), usage=usage).dollars == Decimal("0.0027")


def test_what_cannot_be_shared_cannot_be_lost():
    assert (of(at(5_000, 2_000)).bytes, of(at(0, 0), num_bytes=0).tokens) == (0, 0)
