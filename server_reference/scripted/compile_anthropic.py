"""Answers in the Messages format, whole and as events.

Source: Anthropic API reference, "Messages" and "Streaming messages".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .answers import Answer, StopReason, Usage
from .compile_parts import Event, Facts, argument_pieces, arguments_of, call_id, pieces, sse

__all__ = ["events", "failed", "whole"]

_STOP_REASONS: Mapping[StopReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "refusal": "refusal",
    "pause": "pause_turn",
    "context": "model_context_window_exceeded",
}
_SIGNATURE = "c2NyaXB0ZWQ="
_FIRST_OUTPUT = 1  # what `message_start` counts; `message_delta` has the real number


def whole(answer: Answer, facts: Facts) -> dict[str, Any]:
    """The reply that is not streamed."""
    content: list[dict[str, Any]] = []
    if thinking := "".join(answer.thinking):
        content.append({"type": "thinking", "thinking": thinking, "signature": _SIGNATURE})
    if text := "".join(answer.text):
        content.append({"type": "text", "text": text})
    for number, call in enumerate(answer.tool_calls):
        try:
            arguments = msgspec.json.decode(arguments_of(call))
        except msgspec.DecodeError:
            arguments = call.arguments  # this format cannot carry half an object: as text
        block_id = call_id(call, "toolu", number, facts)
        content.append({"type": "tool_use", "id": block_id, "name": call.name, "input": arguments})
    return _message(facts) | {
        "content": content,
        "stop_reason": _STOP_REASONS[answer.stop],
        "stop_sequence": answer.stop_sequence,
        "usage": _usage(facts.usage, facts.usage.output),
        **facts.usage.reply_fields,
    }


def events(answer: Answer, facts: Facts) -> Iterator[Event]:
    """The stream, without its end when the answer breaks off."""
    usage = _usage(facts.usage, min(_FIRST_OUTPUT, facts.usage.output))
    yield _event("message_start", message=_message(facts) | {"usage": usage} | _extra(facts))
    yield _event("ping")
    yield from _blocks(answer, facts)
    if answer.error is not None:
        return
    delta = {"stop_reason": _STOP_REASONS[answer.stop], "stop_sequence": answer.stop_sequence}
    yield _event("message_delta", delta=delta, usage=_usage(facts.usage, facts.usage.output))
    yield _event("message_stop")


def failed(error: Mapping[str, Any], answer: Answer, facts: Facts) -> Iterator[Event]:
    """The error that ends a stream."""
    yield sse(error, name="error")


def _blocks(answer: Answer, facts: Facts) -> Iterator[Event]:
    index = 0
    if thinking := pieces(answer.thinking):
        yield _start(index, {"type": "thinking", "thinking": "", "signature": ""})
        for piece in thinking:
            yield _delta(index, {"type": "thinking_delta", "thinking": piece})
        signed = {"type": "signature_delta", "signature": _SIGNATURE}
        yield _event("content_block_delta", index=index, delta=signed)
        yield _event("content_block_stop", index=index)
        index += 1
    if text := pieces(answer.text):
        yield _start(index, {"type": "text", "text": ""})
        for piece in text:
            yield _delta(index, {"type": "text_delta", "text": piece})
        yield _event("content_block_stop", index=index)
        index += 1
    for number, call in enumerate(answer.tool_calls):
        block_id = call_id(call, "toolu", number, facts)
        yield _start(index, {"type": "tool_use", "id": block_id, "name": call.name, "input": {}})
        for piece in ["", *argument_pieces(call)]:
            yield _delta(index, {"type": "input_json_delta", "partial_json": piece})
        yield _event("content_block_stop", index=index)
        index += 1


def _start(index: int, block: Mapping[str, Any]) -> Event:
    return _event("content_block_start", index=index, content_block=block)


def _delta(index: int, delta: Mapping[str, Any]) -> Event:
    fields = {"type": "content_block_delta", "index": index, "delta": delta}
    return sse(fields, name="content_block_delta", has_tokens=True)


def _event(name: str, **fields: Any) -> Event:
    return sse({"type": name, **fields}, name=name)


def _message(facts: Facts) -> dict[str, Any]:
    return {
        "id": f"msg_{facts.reply_id}",
        "type": "message",
        "role": "assistant",
        "model": facts.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _extra(facts: Facts) -> dict[str, Any]:
    return dict(facts.usage.reply_fields)


def _usage(usage: Usage, output: int) -> dict[str, Any]:
    """Counts; `input_tokens` leaves cached ones out."""
    counts = {
        "input_tokens": usage.uncached,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.written - usage.cache_write.get("1h", 0),
            "ephemeral_1h_input_tokens": usage.cache_write.get("1h", 0),
        },
        "output_tokens": output,
        "service_tier": "standard",
    }
    if usage.reasoning and output == usage.output:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return counts | dict(usage.usage_fields)
