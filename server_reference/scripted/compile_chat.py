"""Answers in the Chat Completions format, whole and as chunks.

Thinking is `reasoning_content`, as servers of this format that show it name it.

Source: OpenAI API reference, "Chat completions" and "Chat completion chunks".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .answers import Answer, StopReason, Usage
from .compile_parts import Event, Facts, argument_pieces, arguments_of, call_id, pieces, sse

__all__ = ["events", "failed", "whole"]

_FINISH_REASONS: Mapping[StopReason, str] = {
    "stop": "stop",
    "length": "length",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
    "pause": "stop",
    "context": "length",
}


def whole(answer: Answer, facts: Facts) -> dict[str, Any]:
    """The reply that is not streamed."""
    text = "".join(answer.text)
    content = None if answer.tool_calls and not text else text
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if thinking := "".join(answer.thinking):
        message["reasoning_content"] = thinking
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "id": call_id(call, "call", number, facts),
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_of(call)},
            }
            for number, call in enumerate(answer.tool_calls)
        ]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _FINISH_REASONS[answer.stop],
    }
    head = _head("chat.completion", facts)
    return head | {"choices": [choice], "usage": _usage(facts.usage), **facts.usage.reply_fields}


def events(answer: Answer, facts: Facts) -> Iterator[Event]:
    """The stream, without its end when the answer breaks off."""
    options = facts.request.get("stream_options")
    counts = isinstance(options, dict) and options.get("include_usage") is True
    rest: dict[str, Any] = {"usage": None} if counts else {}
    head = _head("chat.completion.chunk", facts)

    def chunk(delta: Mapping[str, Any], finish: str | None = None, *, has_tokens: bool) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return sse(head | {"choices": [choice]} | rest, has_tokens=has_tokens)

    yield chunk({"role": "assistant", "content": "", "refusal": None}, has_tokens=False)
    for delta in _deltas(answer, facts):
        yield chunk(delta, has_tokens=True)
    if answer.error is not None:
        return
    yield chunk({}, _FINISH_REASONS[answer.stop], has_tokens=False)
    if counts:
        yield sse(head | {"choices": [], "usage": _usage(facts.usage), **facts.usage.reply_fields})
    yield Event(b"data: [DONE]\n\n")


def failed(error: Mapping[str, Any], answer: Answer, facts: Facts) -> Iterator[Event]:
    """The error that ends a stream."""
    yield sse(error)


def _deltas(answer: Answer, facts: Facts) -> Iterator[dict[str, Any]]:
    for piece in pieces(answer.thinking):
        yield {"reasoning_content": piece}
    for piece in pieces(answer.text):
        yield {"content": piece}
    for number, call in enumerate(answer.tool_calls):
        function = {"name": call.name, "arguments": ""}
        opened = {"id": call_id(call, "call", number, facts), "type": "function"}
        yield {"tool_calls": [{"index": number, **opened, "function": function}]}
        for piece in argument_pieces(call):
            yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}


def _head(kind: str, facts: Facts) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{facts.reply_id}",
        "object": kind,
        "created": facts.created,
        "model": facts.model,
    }


def _usage(usage: Usage) -> dict[str, Any]:
    """Counts; `prompt_tokens` has cached ones in it."""
    cached = {"cached_tokens": usage.cache_read, "audio_tokens": 0}
    if usage.cache_write:  # where nothing of it is known, the field is not there
        cached["cache_write_tokens"] = usage.written
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": cached,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
        **usage.usage_fields,
    }
