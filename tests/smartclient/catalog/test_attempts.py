"""What an attempt of a call cost, by what was asked for and how it was served."""

from __future__ import annotations

from decimal import Decimal

import pytest

from smartclient import catalog
from smartclient._call import Attempt, Origin, Timeline
from smartclient.catalog.attempts import priced
from smartclient.wire import Served, Usage

USED = Usage(uncached=1000, output=1000)


def an_attempt(**facts):
    given = {"model": "claude-opus-5", "usage": USED} | facts
    return Attempt(1, Origin("http", "a", 1), 0.0, Timeline(), **given)


def test_it_has_the_prices_of_the_model_that_it_asked_for():
    found = priced(an_attempt(served=Served(model="gpt-4.1")))

    assert (found.model, found.total) == ("claude-opus-5", Decimal("0.03"))


@pytest.mark.parametrize("model", ["chat-prod", None], ids=["unknown", "not-named"])
def test_where_its_name_says_nothing_the_replys_does(model):
    found = priced(an_attempt(model=model, served=Served(model="claude-opus-5-20260301")))

    assert found.model == "claude-opus-5"


@pytest.mark.parametrize(
    ("facts", "dollars"),
    [
        pytest.param({}, "0.03", id="as-usual"),
        pytest.param({"served": Served(speed="fast")}, "0.06", id="fast"),
        pytest.param({"asked": Served(speed="fast")}, "0.06", id="asked-for-and-not-told"),
        pytest.param({"served": Served(service_tier="batch")}, "0.015", id="batch"),
        pytest.param(
            {"asked": Served(speed="fast"), "served": Served(speed="standard")},
            "0.03",
            id="not-what-was-asked-for",
        ),
        pytest.param({"asked": Served(geo="us")}, "0.033", id="geo-of-the-request"),
        pytest.param(
            {"asked": Served(geo="us"), "served": Served(geo="not_available")}, "0.03", id="geo"
        ),
    ],
)
def test_it_costs_what_the_way_it_was_served_does(facts, dollars):
    assert priced(an_attempt(**facts)).total == Decimal(dollars)


def test_a_tier_without_a_price_is_unknown_not_the_usual_one():
    found = priced(an_attempt(served=Served(service_tier="priority")))

    assert (found.total, found.missing) == (None, ("service_tier 'priority'",))


def test_what_tools_of_the_provider_cost_is_not_known():
    found = priced(an_attempt(has_fees=True))

    assert (found.total, found.at_least) == (None, Decimal("0.03"))
    assert found.missing == ("fees for tools of the provider",)
    assert priced(an_attempt(model="who-knows", has_fees=True)) is None


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"usage": None}, id="no-tokens-told"),
        pytest.param({"model": "who-knows"}, id="unknown-model"),
        pytest.param({"model": None}, id="no-model"),
    ],
)
def test_nothing_known_is_no_price(facts):
    assert priced(an_attempt(**facts)) is None


def test_ones_own_catalog_comes_first():
    mine = catalog.override({"claude-opus-5": {"prices": {"input": 1, "output": 2}}})

    assert priced(an_attempt(), mine).total == Decimal("0.003")
