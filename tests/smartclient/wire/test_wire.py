"""Which format a request speaks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from smartclient.wire import Adapter, adapters, recognise
from smartclient.wire.encode import encode
from smartclient.wire.sse import Event

MESSAGES, CHAT, RESPONSES = adapters()


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        pytest.param("POST", "/v1/messages", "anthropic.messages", id="anthropic"),
        pytest.param("POST", "/proxy/v1/messages", "anthropic.messages", id="behind-a-prefix"),
        pytest.param("POST", "/v1/chat/completions", "openai.chat", id="openai"),
        pytest.param("POST", "/openai/deployments/x/chat/completions", "openai.chat", id="azure"),
        pytest.param("POST", "/v1/responses", "openai.responses", id="responses"),
        pytest.param(
            "POST", "/v1/responses/input_tokens", "openai.responses", id="count-input-tokens"
        ),
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


@pytest.mark.parametrize(
    ("adapter", "event", "text"),
    [
        pytest.param(
            MESSAGES,
            {"type": "content_block_start", "content_block": {"type": "text", "text": "a"}},
            "a",
            id="message-starts-with-text",
        ),
        pytest.param(
            MESSAGES,
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}},
            "a",
            id="message",
        ),
        pytest.param(
            MESSAGES,
            {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "a"}},
            "",
            id="message-thinks",
        ),
        pytest.param(CHAT, {"choices": [{"delta": {"content": "a"}}]}, "a", id="chat"),
        pytest.param(CHAT, {"choices": [{"delta": {"content": None}}]}, "", id="chat-null"),
        pytest.param(CHAT, {"choices": []}, "", id="chat-without-choices"),
        pytest.param(
            CHAT, {"choices": [{"index": 1, "delta": {"content": "b"}}]}, "", id="chat-second"
        ),
        pytest.param(
            RESPONSES, {"type": "response.output_text.delta", "delta": "a"}, "a", id="response"
        ),
        pytest.param(
            RESPONSES, {"type": "response.output_text.done", "text": "a"}, "", id="response-again"
        ),
        pytest.param(
            RESPONSES, {"type": "response.refusal.delta", "delta": "a"}, "", id="response-refuses"
        ),
    ],
)
def test_the_text_of_an_event_is_the_models(adapter, event, text):
    part = adapter.part(Event("message", encode(event).decode()))

    assert adapter.text(part.value) == text


@pytest.mark.parametrize(
    ("adapter", "whole", "text"),
    [
        pytest.param(
            MESSAGES,
            b'{"content": [{"type": "text", "text": "a"}, {"type": "thinking", "text": "b"},'
            b' {"type": "text", "text": "c"}, {"type": "text", "text": null}]}',
            "ac",
            id="message",
        ),
        pytest.param(MESSAGES, b'{"content": null}', "", id="message-without-content"),
        pytest.param(
            CHAT,
            b'{"choices": [{"message": {"content": "a"}}, {"message": {"content": "b"}}]}',
            "a",
            id="chat",
        ),
        pytest.param(CHAT, b'{"choices": []}', "", id="chat-without-choices"),
        pytest.param(
            RESPONSES,
            b'{"output": [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}]}',
            "a",
            id="response",
        ),
    ],
)
def test_the_text_of_a_whole_reply_is_the_models(adapter, whole, text):
    assert adapter.text(adapter.value(whole)) == text


@pytest.mark.parametrize("adapter", adapters(), ids=lambda adapter: adapter.name)
def test_what_has_no_text_has_none(adapter: Adapter):
    assert adapter.text(None) == ""


def test_the_formats_are_loaded_when_they_are_needed():
    code = (
        "import sys, smartclient.wire.sse, smartclient.wire as w; "
        "import smartclient.wire._base; "
        "print(w.adapters.cache_info().currsize)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "0"


@pytest.mark.parametrize("counts", [7, [1], "many", {"output_tokens": [1], "prompt_tokens": {}}])
@pytest.mark.parametrize(
    ("adapter", "event"),
    [
        pytest.param(
            MESSAGES, {"type": "message_delta", "delta": {"stop_reason": "stop"}}, id="messages"
        ),
        pytest.param(
            CHAT, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, id="chat"
        ),
    ],
)
def test_counts_that_are_none_cost_an_event_no_word(adapter, event, counts):
    part = adapter.part(Event("message", encode({**event, "usage": counts}).decode()))

    assert (part.delta.failure, part.delta.usage) == (None, None)
    assert part.delta.finish == "stop"
