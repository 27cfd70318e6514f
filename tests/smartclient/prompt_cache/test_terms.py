"""What a model's cache costs, and from when on it pays."""

from __future__ import annotations

import pytest

from smartclient import catalog
from smartclient.prompt_cache.terms import expected_reads, terms_of
from tests.smartclient.prompt_cache.hinted_prompts import terms


@pytest.mark.parametrize(
    ("model", "endpoint", "ttl", "reads"),
    [
        pytest.param("claude-opus-5", "anthropic.messages", "5m", 0.28, id="5m-at-a-tenth"),
        pytest.param("claude-opus-5-5", "anthropic.messages", "5m", 0.26, id="5m-at-a-twentieth"),
        pytest.param("claude-fable-5-1", "anthropic.messages", "5m", 0.26, id="5m-at-a-fortieth"),
        pytest.param("claude-opus-5", "anthropic.messages", "1h", 1.11, id="an-hour"),
        pytest.param("gpt-5.6", "openai.chat", "30m", 0.28, id="openai"),
        pytest.param("gpt-5.6", "openai.responses", "12h", 1.67, id="openai-12h"),
    ],
)
def test_the_break_even_follows_from_the_model_s_own_prices(model, endpoint, ttl, reads):
    found = terms(model, endpoint)

    assert round((found.writes[ttl] - 1.0) / (1.0 - found.read), 2) == reads


@pytest.mark.parametrize(
    ("model", "endpoint", "style", "ttls"),
    [
        ("claude-opus-5", "anthropic.messages", "marks", ["5m", "1h"]),
        ("gpt-5.6", "openai.chat", "breakpoints", ["30m"]),
        ("gpt-5.6", "openai.responses", "breakpoints", ["30m", "12h"]),
        ("gpt-5.1", "openai.chat", "automatic", []),
    ],
)
def test_the_style_is_the_model_s(model, endpoint, style, ttls):
    found = terms(model, endpoint)

    assert (found.style, list(found.writes)) == (style, ttls)


@pytest.mark.parametrize(
    ("fields", "endpoint"),
    [
        pytest.param({"prices": None}, "anthropic.messages", id="no-prices"),
        pytest.param({"prices": {"cache_read": None}}, "anthropic.messages", id="no-reads"),
        pytest.param({"cache_ttls": None}, "anthropic.messages", id="no-lifetimes"),
        pytest.param({}, "openai.chat", id="behind-another-format"),
    ],
)
def test_what_is_not_known_is_not_guessed(fields, endpoint):
    facts = catalog.override({"claude-opus-5": fields}).model("claude-opus-5")

    assert terms_of(facts, endpoint=endpoint) is None


@pytest.mark.parametrize(
    ("model", "endpoint"),
    [("gpt-5.6", "anthropic.messages"), ("claude-opus-5", "openai.chat"), ("gpt-5.6", "cohere")],
)
def test_a_model_behind_the_format_of_another_provider_has_none(model, endpoint):
    assert terms_of(catalog.model(model), endpoint=endpoint) is None


def test_a_model_that_nobody_knows_has_no_terms():
    assert terms_of(None, endpoint="anthropic.messages") is None


@pytest.mark.parametrize(("chance", "reads"), [(0.0, 0.0), (0.5, 1.0), (0.75, 3.0), (1.0, 20.0)])
def test_each_read_renews_so_one_write_serves_a_run(chance, reads):
    assert expected_reads(chance) == pytest.approx(reads)
