"""The names that other people's code relies on: exactly these, and each one really there."""

from __future__ import annotations

import importlib
import inspect
from typing import get_origin

import pytest

import server_reference
import smartclient

# Adding a name is a feature, taking one away breaks somebody: both change this list.
NAMES = {
    "smartclient": """
        AsyncClient AuthenticationError Budget BudgetExceededError CallReport Client
        EventTooLargeError ExchangeError
        IncompleteStreamError
        InvalidRequestError Ledger MalformedReplyError OverloadedError RateLimitError RefusedError
        PoolStats ServerError Settings SmartClientError StatusError Timeout last_report pool_stats
        async_httpx2_client async_httpx_client httpx2_client httpx_client scope unwrap wrap
        """,
    "smartclient.budgets": "Budget BudgetState Downgrade budgets_of",
    "smartclient.catalog": """
        Catalog Cost ImageTokens Mode ModelFacts Prices Rates Tier
        builtin catalog_of cost from_genai_prices model override read
        """,
    "smartclient.ledger": "Entry Ledger Total",
    "smartclient.prompt_cache": """
        Block CacheHints CacheSavings Drift Evidence KeepAlive MISS_KINDS Mark MarkUse Miss Move
        Tally Tier Walk classify drift keep_alive prewarm provider_diagnosis savings walk
        """,
    "smartclient.stores": """
        Account Amount Balance Booking MemoryStore Operation Read RedisStore Reserve Reserved
        SQLiteStore Settle Store StoreError
        """,
    "smartclient.testing": "ManualClock OVERLOADED RATE_LIMITED a_call a_reply play",
    "smartclient.tokens": """
        Boilerplate BoilerplateReport Calibrator DownloadError Fitted Repeated SummaryError
        TokenCount TooLongError boilerplate count countable download exact fit
        """,
    "server_reference": "LLM SamplingParams scripted start",
    "server_reference.scripted": """
        Admin Answer Authority ErrorAnswer Fault ManualClock Observer Provider Received Recorder
        Replay Rule ScriptedServer ToolCall Usage fault faults_at greeting json_reply rule
        """,
}

# Reached through a module; `docs/reference/api.md` and other people's tests name them.
ELSEWHERE = [
    "smartclient.tokens.count",
    "smartclient.wire.sse.SSEDecoder",
    "smartclient.policies.retry.retry_after",
]

METHODS = {
    "Client": "messages.create messages.stream messages.count_tokens chat.completions.create "
    "chat.completions.stream responses.create responses.stream responses.input_tokens.count "
    "close prewarm",
    "AsyncClient": "messages.create messages.stream messages.count_tokens "
    "chat.completions.create chat.completions.stream responses.create responses.stream "
    "responses.input_tokens.count close aclose prewarm",
}

a_package = pytest.mark.parametrize("package", NAMES)


@a_package
def test_a_package_exports_exactly_its_names(package):
    assert sorted(importlib.import_module(package).__all__) == sorted(NAMES[package].split())


@a_package
def test_every_exported_name_is_there_and_described(package):
    module = importlib.import_module(package)

    undescribed = [
        name
        for name in module.__all__
        if not inspect.getdoc(getattr(module, name))
        and callable(getattr(module, name))
        and get_origin(getattr(module, name)) is None  # a name for a type
    ]

    assert undescribed == []


@pytest.mark.parametrize("path", ELSEWHERE)
def test_a_name_inside_a_module_is_there(path):
    module, _, name = path.rpartition(".")

    assert name in importlib.import_module(module).__all__


@pytest.mark.parametrize("kind", METHODS)
def test_a_client_has_its_methods(kind):
    client = getattr(smartclient, kind)(api_key="k")

    for path in METHODS[kind].split():
        found = client
        for name in path.split("."):
            found = getattr(found, name)
        assert callable(found), path


def test_errors_of_the_client_share_one_root():
    errors = [getattr(smartclient, name) for name in smartclient.__all__ if name.endswith("Error")]

    assert all(issubclass(error, smartclient.SmartClientError) for error in errors)


def test_a_server_is_started_by_name_and_options():
    parameters = inspect.signature(server_reference.start).parameters

    assert [one.kind.description for one in parameters.values()] == [
        "positional or keyword",
        "variadic keyword",
    ]
