"""What a call may use at most."""

from __future__ import annotations

import pytest

from smartclient import catalog
from smartclient._call import Attempt, Origin, Timeline
from smartclient.budgets.quote import DEFAULT_OUTPUT, Quotes, is_free, output_field
from smartclient.testing import a_call
from smartclient.tokens import Calibrator, TokenCount, count
from smartclient.wire import Served

MINE = catalog.override(
    {
        "mine": {
            "max_output_tokens": 500,
            "prices": {
                "input": 1,
                "output": 10,
                "cache_write": {"5m": 2},
                "tiers": [{"above": 1000, "input": 2, "output": 20, "cache_write": {"5m": 4}}],
                "service_tiers": {"flex": {"multiplier": 0.5}},
            },
        }
    }
)
MESSAGES = [{"role": "user", "content": "Hello there"}]


def a_quote(path="/v1/messages", *, calibrator=None, **payload):
    call = a_call(path=path, payload={"model": "mine", "messages": MESSAGES} | payload)
    return Quotes(catalog=MINE, calibrator=calibrator).of(call, is_priced=True)


@pytest.mark.parametrize(
    ("path", "payload", "output"),
    [
        pytest.param("/v1/messages", {"max_tokens": 8}, 8, id="messages"),
        pytest.param("/v1/messages", {"max_tokens": 0}, 0, id="nothing-but-the-prompt"),
        pytest.param("/v1/chat/completions", {"max_tokens": 8}, 8, id="chat"),
        pytest.param("/v1/chat/completions", {"max_completion_tokens": 9}, 9, id="newer-chat"),
        pytest.param("/v1/chat/completions", {"max_tokens": 8, "n": 3}, 24, id="choices"),
        pytest.param("/v1/chat/completions", {"max_tokens": 8, "n": None}, 8, id="null-choices"),
        pytest.param("/v1/responses", {"max_output_tokens": 7}, 7, id="responses"),
        pytest.param("/v1/responses", {"n": 3}, 500, id="the-models-own"),
        pytest.param("/v1/chat/completions", {"n": 2}, 1000, id="the-models-own-twice"),
        pytest.param("/v1/messages", {"max_tokens": "many"}, 500, id="nonsense"),
        pytest.param("/v1/chat/completions", {"model": "?"}, DEFAULT_OUTPUT, id="unknown-model"),
    ],
)
def test_the_longest_answer_is_what_the_call_allows(path, payload, output):
    assert a_quote(path, **payload).output_tokens == output


def test_the_input_is_as_long_as_it_may_be_and_priced_in_the_dearest_way():
    quote = a_quote(max_tokens=8)

    counted = count({"messages": MESSAGES}, model="mine", endpoint="anthropic.messages")
    assert quote.input_tokens == counted.p95 > counted.p50
    assert quote.amount.tokens == counted.p95 + 8
    assert quote.amount.nanodollars == counted.p95 * 2_000 + 8 * 10_000


@pytest.mark.parametrize("payload", [{"max_tokens": 10**40}, {"max_tokens": 9, "n": 10**40}])
def test_more_than_any_store_can_count_is_the_most_that_it_can(payload):
    """So the call is refused as one that can never fit, and no store raises."""
    amount = a_quote("/v1/chat/completions", **payload).amount

    assert amount.tokens == amount.nanodollars == 2**53


def test_the_way_to_be_served_is_priced():
    usual, flex = a_quote(max_tokens=8), a_quote(max_tokens=8, service_tier="flex")

    assert usual.amount.nanodollars == 2 * flex.amount.nanodollars


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"model": "nobody's"}, id="model"),
        pytest.param({"model": None}, id="no-model"),
        pytest.param({"speed": "warp"}, id="speed"),
    ],
)
def test_an_unknown_price_is_none(payload):
    quote = a_quote(max_tokens=8, **payload)

    assert quote.tariff is None
    assert quote.amount.nanodollars == 0
    assert quote.amount.tokens > 8


def test_a_price_that_is_known_for_shorter_requests_only_is_none():
    tiers = [{"above": 5}]
    mine = catalog.override({"mine": {"prices": {"input": 1, "output": 2, "tiers": tiers}}})
    call = a_call(payload={"model": "mine", "max_tokens": 8, "messages": MESSAGES})

    assert Quotes(catalog=mine).of(call, is_priced=True).tariff is None


def test_a_tier_that_is_no_text_is_as_usual():
    assert a_quote(max_tokens=8, service_tier=["flex"]).amount == a_quote(max_tokens=8).amount


def test_earlier_calls_correct_the_count():
    calibrator = Calibrator()
    for _ in range(50):
        lesson = TokenCount(90, 100, 110, "heuristic", estimate=100)
        calibrator.observe(lesson, 300, provider="anthropic", model="mine")

    assert a_quote(calibrator=calibrator).input_tokens > 2 * a_quote().input_tokens


def test_the_count_is_kept_so_that_the_call_can_correct_later_ones():
    call = a_call(payload={"model": "mine", "messages": MESSAGES})

    quote = Quotes(catalog=MINE).of(call, is_priced=True)

    assert call.trace.counted.p95 == quote.input_tokens


@pytest.mark.parametrize(
    ("attempt", "asked"),
    [
        pytest.param({"model": "mine", "served": Served(service_tier="flex")}, "flex", id="served"),
        pytest.param({"model": "mine", "asked": Served(service_tier="flex")}, "flex", id="asked"),
        pytest.param({"served": Served(model="mine")}, None, id="the-model-that-answered"),
    ],
)
def test_an_attempt_is_billed_as_its_reply_says_it_was_served(attempt, asked):
    quotes = Quotes(catalog=MINE)
    tried = Attempt(1, Origin("http", "a", 80), 0.0, Timeline(), **attempt)

    found = quotes.tariff_of(tried)

    assert found is quotes.tariff_of(tried)
    assert found.most(10, 10) == quotes.tariff("mine", {"service_tier": asked}).most(10, 10)


def test_prices_of_names_that_users_make_up_do_not_pile_up():
    quotes = Quotes(catalog=MINE)

    for number in range(1_100):
        quotes.tariff("mine", {"speed": str(number)})

    assert len(quotes._tariffs) <= 1_024


@pytest.mark.parametrize(
    ("path", "is_it"),
    [
        pytest.param("/v1/messages/count_tokens?beta=true", True, id="count"),
        pytest.param("/v1/responses/input_tokens", True, id="responses-count"),
        pytest.param("/v1/messages", False, id="messages"),
        pytest.param("/v1/embeddings", False, id="unknown"),
    ],
)
def test_only_counting_is_free(path, is_it):
    assert is_free(a_call(path=path)) is is_it


@pytest.mark.parametrize(
    ("path", "payload", "field"),
    [
        pytest.param("/v1/messages", {}, "max_tokens", id="messages"),
        pytest.param("/v1/responses", {}, "max_output_tokens", id="responses"),
        pytest.param("/v1/chat/completions", {"max_tokens": 5}, "max_tokens", id="older-chat"),
        pytest.param("/v1/chat/completions", {}, "max_completion_tokens", id="chat"),
        pytest.param(
            "/v1/chat/completions",
            {"max_tokens": 5, "max_completion_tokens": 5},
            "max_completion_tokens",
            id="both",
        ),
    ],
)
def test_the_limit_of_an_answer_has_its_field(path, payload, field):
    assert output_field(a_call(path=path, payload=payload)) == field
