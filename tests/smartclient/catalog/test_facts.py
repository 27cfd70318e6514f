"""What the catalog that we ship must hold, record by record."""

from __future__ import annotations

import re
from datetime import date
from typing import get_args

import msgspec
import pytest
from anthropic.types import model as anthropic_model
from openai.types.shared import chat_model

from server_reference.scripted.providers.cache_rules import MINIMUM_TOKENS
from smartclient import catalog
from smartclient.catalog import ModelFacts

RECORDS = list(catalog.builtin())

each_record = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)

# What the SDKs still list although it is switched off, or is priced by more than text.
NOT_HERE = re.compile(
    r"claude-mythos-preview|gpt-3\.5|gpt-4($|-)|o1|o3-mini|chatgpt|codex|gpt-5\.1-(codex|mini)"
    r"|.*(audio|search-preview|chat-latest)"
)
ANTHROPIC = get_args(get_args(anthropic_model.Model)[0])
OPENAI = get_args(chat_model.ChatModel)


@each_record
def test_a_record_says_since_when_and_by_whom(record):
    assert date.fromisoformat(record.as_of) >= date(2026, 11, 29)
    assert re.search(r"https://|\d\.\d", record.source)
    assert record.provider in ("anthropic", "openai")


@each_record
def test_a_record_has_prices_and_knows_which_text_they_are_for(record):
    assert record.prices.input > 0
    assert record.prices.output >= record.prices.input


@each_record
def test_writing_to_the_cache_costs_more_than_reading_from_it(record):
    prices = record.prices
    read = prices.cache_read or 0

    assert read < prices.input
    assert all(price > prices.input for price in prices.cache_write.values())


@each_record
def test_every_time_to_live_that_has_a_price_has_a_length(record):
    assert set(record.prices.cache_write) <= set(record.cache_ttls or {})


@each_record
def test_limits_fit_into_each_other(record):
    window = record.context_window or 10**9

    assert (record.max_input_tokens or 0) <= window
    assert (record.max_output_tokens or 0) <= window


@pytest.mark.sdk
@pytest.mark.parametrize("name", [*ANTHROPIC, *OPENAI])
def test_a_model_that_an_sdk_names_is_known_unless_it_is_gone(name):
    assert (catalog.model(name) is None) is bool(NOT_HERE.match(name))


@pytest.mark.parametrize("name", sorted(set(MINIMUM_TOKENS) - {"claude-mythos-preview"}))
def test_the_scripted_server_caches_from_the_same_length_on(name):
    facts = catalog.model(name)

    assert facts.min_cache_tokens == MINIMUM_TOKENS[name]


def test_a_record_outlives_the_trip_through_json():
    encoded = msgspec.json.encode(RECORDS)

    assert msgspec.json.decode(encoded, type=list[ModelFacts]) == RECORDS
