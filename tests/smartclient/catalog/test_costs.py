"""Dollars to the last digit, against sums made by hand from the vendors' price lists."""

from __future__ import annotations

import json
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient import catalog
from smartclient.catalog import Cost, cost
from smartclient.wire import Usage, adapters

MESSAGES, CHAT, RESPONSES = adapters()


def usage(adapter, **counts):
    """What our adapter reads from a reply with these counts, in its vendor's own words."""
    return adapter.whole(json.dumps({"usage": counts}).encode()).delta.usage


def messages(input, output, *, read=0, written=0, **more):
    counts = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return usage(MESSAGES, input_tokens=input, output_tokens=output, **counts, **more)


def chat(prompt, completion, *, cached=0, written=None, **more):
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    return usage(
        CHAT,
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=details,
        **more,
    )


def responses(input, output, *, cached=0, written=0, **ttls):
    details = {
        "cached_tokens": cached,
        "cache_write_tokens": written,
        "cache_write_tokens_details": ttls or None,
    }
    return usage(RESPONSES, input_tokens=input, output_tokens=output, input_tokens_details=details)


SPLIT = {"cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200}}
HOURS = {"cache_creation": {"ephemeral_1h_input_tokens": 60_000}}
THOUGHT = {"output_tokens_details": {"thinking_tokens": 400}}
REASONED = {"completion_tokens_details": {"reasoning_tokens": 800}}

# What a call cost, added up by hand from the price lists of November 2026.
BY_HAND = {
    "write-5m": ("claude-sonnet-4-5", messages(3, 550, written=12_304), {}, "0.054399"),
    "both-ttls": (
        "claude-sonnet-4-5",
        messages(1200, 0, read=500, written=300, **SPLIT),
        {},
        "0.005325",
    ),
    "read-at-a-20th": ("claude-opus-5-5", messages(10, 100, read=100_000), {}, "0.02204"),
    "read-at-a-40th": ("claude-fable-5-1", messages(0, 1, read=1_000_000), {}, "0.25005"),
    "at-the-bound": ("claude-haiku-5-5", messages(100_000, 10), {}, "0.010005"),
    "one-above-it": ("claude-haiku-5-5", messages(100_001, 10), {}, "0.0500255"),
    "above-by-reads": ("claude-haiku-5-5", messages(1, 0, read=100_000), {}, "0.0050005"),
    "above-by-writes": (
        "claude-haiku-5-5",
        messages(50_000, 1, written=60_000, **HOURS),
        {},
        "0.0850025",
    ),
    "above-in-a-batch": (
        "claude-haiku-5-5",
        messages(50_000, 1, written=60_000, **HOURS),
        {"batch": True},
        "0.04250125",
    ),
    "batch-in-the-us": (
        "claude-opus-4-8",
        messages(1000, 1000),
        {"batch": True, "geo": "us"},
        "0.0165",
    ),
    "fast": ("claude-opus-5", messages(1000, 1000, written=1000), {"speed": "fast"}, "0.0725"),
    "fast-in-the-us": (
        "claude-opus-5",
        messages(1000, 1000, written=1000),
        {"speed": "fast", "geo": "us"},
        "0.07975",
    ),
    "reply-says-batch": (
        "claude-sonnet-5",
        messages(1000, 1000),
        {"service_tier": "batch"},
        "0.006",
    ),
    "reply-says-standard": (
        "claude-haiku-4-5",
        messages(1000, 1000),
        {"service_tier": "standard", "speed": "standard", "geo": "not_available"},
        "0.006",
    ),
    "bedrock-us": (
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        messages(1000, 1000),
        {},
        "0.0198",
    ),
    "bedrock-gov": ("us-gov.anthropic.claude-opus-5", messages(1000, 1000), {}, "0.036"),
    "bedrock-global": ("global.anthropic.claude-opus-5", messages(1000, 1000), {}, "0.03"),
    "nothing-used": ("claude-opus-5", messages(0, 0), {}, "0"),
    "null-counts": ("claude-sonnet-5", messages(5, 1, read=None, written=None), {}, "0.00002"),
    "thinking-is-output": ("claude-opus-5", messages(0, 1000, **THOUGHT), {}, "0.025"),
    "cached": ("gpt-4.1", chat(2006, 300, cached=1920), {}, "0.003532"),
    "reasoning-is-output": ("o3", chat(100, 1000, **REASONED), {}, "0.0082"),
    "under-a-microdollar": ("gpt-4o-mini", chat(1, 1), {}, "0.00000075"),
    "write-30m": ("gpt-5.6-sol", chat(10_000, 500, cached=4000, written=3000), {}, "0.0386"),
    "at-the-cliff": ("gpt-5.6", chat(272_000, 100), {}, "1.09"),
    "over-the-cliff": ("gpt-5.6", chat(272_001, 100), {}, "2.179008"),
    "over-it-cached": ("gpt-5.6", chat(300_000, 0, cached=299_000), {}, "0.2472"),
    "flex": ("gpt-6.1-sol", chat(1000, 1000), {"service_tier": "flex"}, "0.006"),
    "fast-over-the-cliff": (
        "gpt-6.1-sol",
        chat(300_000, 1000),
        {"service_tier": "fast"},
        "2.43",
    ),
    "priority-over-the-cliff": (
        "gpt-6.1-sol",
        chat(300_000, 1000),
        {"service_tier": "priority"},
        "2.43",
    ),
    "batch-rounded-by-vendor": (
        "gpt-5.4",
        chat(1000, 0, cached=1000),
        {"batch": True},
        "0.00013",
    ),
    "batch-over-the-cliff": (
        "gpt-5.4",
        chat(300_000, 0, cached=300_000),
        {"batch": True},
        "0.075",
    ),
    "batch-reads-at-full-price": (
        "gpt-4.1",
        chat(1000, 1000, cached=1000),
        {"batch": True},
        "0.0045",
    ),
    "priority": ("gpt-4.1", chat(1000, 1000), {"service_tier": "priority"}, "0.0175"),
    "priority-by-list": ("gpt-4o-mini", chat(1000, 1000), {"service_tier": "priority"}, "0.00125"),
    "fine-tuned": ("ft:gpt-4.1-mini-2025-04-14:org::id", chat(1000, 1000), {}, "0.004"),
    "azure-eu": ("azure/eu/gpt-4.1", chat(1000, 1000), {}, "0.011"),
    "in-the-eu": ("gpt-5.4", chat(1000, 1000), {"geo": "eu"}, "0.01925"),
    "default-tier": ("gpt-5.4", chat(1000, 1000), {"service_tier": "default"}, "0.0175"),
    "both-openai-ttls": (
        "gpt-6-sol",
        responses(10_000, 100, cached=2000, written=4000, ttl_30m_tokens=1000, ttl_12h_tokens=3000),
        {},
        "0.0269",
    ),
    "smallest": ("gpt-6-luna", responses(1, 1), {}, "0.0000006"),
    "nanodollars": ("gpt-5-nano", responses(1, 0, cached=1), {"service_tier": "flex"}, "2.5E-9"),
    "pro-batch": ("gpt-5-pro", responses(1000, 1000), {"batch": True}, "0.0675"),
    "odd-multiplier": (
        "gpt-5-mini",
        responses(1000, 1000),
        {"service_tier": "priority"},
        "0.00405",
    ),
}


@pytest.mark.parametrize(("name", "used", "how", "dollars"), BY_HAND.values(), ids=BY_HAND)
def test_a_call_costs_what_the_price_list_says(name, used, how, dollars):
    found = cost(used, catalog.model(name), **how)

    assert (found.total, found.missing) == (Decimal(dollars), ())


COUNT = st.integers(0, 2_000_000)


@given(uncached=COUNT, read=COUNT, short=COUNT, long=COUNT, output=COUNT)
def test_any_counts_add_up_exactly(uncached, read, short, long, output):
    used = Usage(
        uncached=uncached, cache_read=read, cache_write={"30m": short, "12h": long}, output=output
    )

    found = cost(used, catalog.model("gpt-6.1-sol"), service_tier="flex", geo="us")

    # Hundredths of a dollar per million tokens: 2, 0.10, 2.50, 5 and 10 dollars as listed.
    cents = uncached * 200 + read * 10 + short * 250 + long * 500
    is_long = uncached + read + short + long > 272_000
    listed = Fraction(cents * 2 + output * 1500 if is_long else cents + output * 1000, 10**8)
    assert Fraction(found.total) == listed / 2 * Fraction(11, 10)


def test_the_parts_add_up_to_the_total():
    used = Usage(uncached=7, cache_read=11, cache_write={"5m": 13, "1h": 17}, output=19)

    found = cost(used, catalog.model("claude-opus-5"))

    parts = [found.uncached, found.cache_read, *found.cache_write.values(), found.output]
    assert sum(parts) == found.total
    assert found.model == "claude-opus-5"


def test_the_callers_precision_is_not_ours():
    with localcontext(Context(prec=2)):
        found = cost(Usage(uncached=123_457, output=0), catalog.model("gpt-4.1"))

    assert found.total == Decimal("0.246914")


def test_it_is_rounded_once_and_only_when_asked():
    found = Cost(model="m", total=Decimal("0.0000025"))

    assert (found.rounded(), found.rounded(7)) == (Decimal("0.000002"), Decimal("0.0000025"))
    assert str(found) == "$0.000002"


A_REPLY = Usage(uncached=10, output=10)


@pytest.mark.parametrize(
    ("name", "used", "how", "missing"),
    [
        pytest.param(
            "gpt-4.1", Usage(uncached=1, output=None), {}, ["output tokens"], id="cut-off"
        ),
        pytest.param("gpt-4.1", Usage(output=1), {}, ["input tokens"], id="no-input"),
        pytest.param(
            "gpt-4.1",
            Usage(uncached=-5, output=1),
            {},
            ["input of -5 tokens"],
            id="impossible-count",
        ),
        pytest.param(
            "gpt-4.1",
            Usage(uncached=1, output=10**120),
            {},
            ["output of over 1,000,000,000,000,000 tokens"],
            id="more-than-there-can-be",
        ),
        pytest.param(
            "gpt-4.1",
            Usage(uncached=1, cache_write={"5m": 4}, output=1),
            {},
            ["price of cache_write.5m"],
            id="a-write-it-does-not-sell",
        ),
        pytest.param(
            "gpt-6.2-sol",
            Usage(uncached=1, cache_read=1, output=1),
            {},
            ["price of cache_read"],
            id="a-read-nobody-priced",
        ),
        pytest.param(
            "gpt-6.2-astra",
            Usage(uncached=272_001, output=1),
            {},
            ["price of input above 272,000 tokens", "price of output above 272,000 tokens"],
            id="an-unknown-tier",
        ),
        pytest.param("gpt-5.3-codex", A_REPLY, {"batch": True}, ["batch"], id="no-batch"),
        pytest.param(
            "claude-opus-5",
            A_REPLY,
            {"service_tier": "priority"},
            ["service_tier 'priority'"],
            id="prepaid",
        ),
        pytest.param(
            "claude-sonnet-5", A_REPLY, {"speed": "fast"}, ["speed 'fast'"], id="not-offered-fast"
        ),
        pytest.param("claude-haiku-4-5", A_REPLY, {"geo": "us"}, ["geo 'us'"], id="no-such-place"),
        pytest.param(
            "gpt-5.4",
            A_REPLY,
            {"batch": True, "service_tier": "flex"},
            ["batch with service_tier 'flex'"],
            id="two-at-once",
        ),
        pytest.param(
            "gpt-4.1",
            Usage(uncached=9, output=9, reasoning=94, inconsistent="94 in 9"),
            {},
            ["consistent counts: 94 in 9"],
            id="inconsistent",
        ),
        pytest.param(
            "gpt-4.1",
            Usage(uncached=9, output=1, is_final=False),
            {},
            ["final output tokens"],
            id="cut",
        ),
        pytest.param("ft:gpt-5.4:org::id", A_REPLY, {}, ["prices"], id="an-unpriced-tune"),
        pytest.param("ca.anthropic.claude-opus-5", A_REPLY, {}, ["prices"], id="unpriced-region"),
    ],
)
def test_what_is_unknown_is_named_and_never_counted_as_nothing(name, used, how, missing):
    found = cost(used, catalog.model(name), **how)

    assert (found.total, list(found.missing)) == (None, missing)
    assert str(found) == f"unknown: {', '.join(missing)}"
    assert found.rounded() is None


def test_a_known_part_is_told_beside_an_unknown_one():
    used = Usage(uncached=1000, cache_read=1, output=1000)

    found = cost(used, catalog.model("gpt-6.2-sol"))

    assert (found.uncached, found.cache_read, found.output) == (
        Decimal("0.002"),
        None,
        Decimal("0.01"),
    )


@pytest.mark.parametrize(
    ("used", "at_least"),
    [
        pytest.param(Usage(uncached=1000, output=1000), "0.012", id="all-known"),
        pytest.param(Usage(uncached=1000, output=1000, is_final=False), "0.012", id="cut"),
        pytest.param(Usage(uncached=1000, cache_read=1, output=1000), "0.012", id="a-part-unknown"),
        pytest.param(Usage(uncached=1000, output=-1, inconsistent="x"), None, id="inconsistent"),
        pytest.param(Usage(output=1000), None, id="no-input"),
    ],
)
def test_the_known_parts_are_the_least_that_it_cost(used, at_least):
    found = cost(used, catalog.model("gpt-6.2-sol"))

    assert found.at_least == (at_least and Decimal(at_least))


def test_a_part_without_tokens_needs_no_price():
    used = Usage(uncached=0, cache_read=0, cache_write={"5m": 0}, output=100)

    assert cost(used, catalog.model("gpt-6.2-sol")).total == Decimal("0.001")


@pytest.mark.parametrize(
    ("used", "name"), [(None, "gpt-4.1"), (A_REPLY, None)], ids=["no-usage", "no-facts"]
)
def test_nothing_comes_of_nothing(used, name):
    facts = catalog.model(name) if name else None

    assert cost(used, facts) is None


def test_the_tier_that_held_is_told():
    long, short = Usage(uncached=100_001, output=0), Usage(uncached=100_000, output=0)
    facts = catalog.model("claude-haiku-5-5")

    assert (cost(long, facts).above, cost(short, facts).above) == (100_000, None)
    assert cost(long, facts, batch=True).above == 100_000


def test_a_mode_may_have_tiers_of_its_own():
    mine = catalog.override(
        {
            "m": {
                "prices": {
                    "input": 1,
                    "output": 2,
                    "tiers": [{"above": 10, "input": 3, "output": 4}],
                    "batch": {
                        "multiplier": 0.5,
                        "tiers": [{"above": 20, "input": 9, "output": 9}],
                    },
                }
            }
        }
    )

    totals = [
        cost(Usage(uncached=tokens, output=0), mine.model("m"), batch=True).total
        for tokens in (20, 21)
    ]

    assert totals == [Decimal("0.00001"), Decimal("0.000189")]


@pytest.mark.parametrize(("tokens", "above"), [(10, None), (11, 10), (20, 10), (21, 20)])
def test_the_highest_tier_that_is_exceeded_holds(tokens, above):
    tiers = [{"above": bound, "input": bound, "output": 1} for bound in (10, 20)]
    mine = catalog.override({"m": {"prices": {"input": 1, "output": 1, "tiers": tiers}}})

    assert cost(Usage(uncached=tokens, output=0), mine.model("m")).above == above
