"""Which format a request speaks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from smartclient.wire import Adapter, adapters, recognise


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        pytest.param("POST", "/v1/messages", "anthropic.messages", id="anthropic"),
        pytest.param("POST", "/proxy/v1/messages", "anthropic.messages", id="behind-a-prefix"),
        pytest.param("POST", "/v1/chat/completions", "openai.chat", id="openai"),
        pytest.param("POST", "/openai/deployments/x/chat/completions", "openai.chat", id="azure"),
        pytest.param("POST", "/v1/responses", "openai.responses", id="responses"),
        pytest.param("POST", "/v1/responses/resp_1/cancel", None, id="cancel"),
        pytest.param("GET", "/v1/responses", None, id="list"),
        pytest.param("POST", "/v1/messages/count_tokens", "anthropic.messages", id="count-tokens"),
        pytest.param("POST", "/v1/messages/batches", None, id="batches"),
        pytest.param("POST", "/v1/completions", None, id="old-completions"),
        pytest.param("GET", "/v1/messages", None, id="not-a-post"),
    ],
)
def test_a_request_is_recognised_by_method_and_path(method, path, name):
    adapter = recognise(method, path)

    assert (adapter and adapter.name) == name


@pytest.mark.parametrize("adapter", adapters(), ids=lambda adapter: adapter.name)
def test_every_adapter_says_where_the_request_id_is(adapter: Adapter):
    headers = {"anthropic": "request-id", "openai": "x-request-id"}

    assert adapter.request_id_header == headers[adapter.provider]
    assert not adapter.recognises("GET", "/v1/messages")


@pytest.mark.parametrize("adapter", adapters(), ids=lambda adapter: adapter.name)
def test_every_adapter_reads_an_error_reply(adapter: Adapter):
    failure = adapter.failure(529, b'{"error":{"type":"overloaded_error","message":"busy"}}')

    assert (failure.kind, failure.message, failure.is_transient) == ("overloaded", "busy", True)


def test_the_formats_are_loaded_when_they_are_needed():
    code = (
        "import sys, smartclient.wire.sse, smartclient.wire as w; "
        "import smartclient.wire._base; "
        "print(w.adapters.cache_info().currsize)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "0"
