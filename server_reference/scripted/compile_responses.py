"""Answers in the Responses format, whole and as events.

Source: OpenAI API reference, "Responses" and "Streaming events".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .answers import Answer, ToolCall, Usage
from .compile_parts import Event, Facts, argument_pieces, arguments_of, call_id, pieces, sse

__all__ = ["ECHOED", "events", "failed", "whole"]

ECHOED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}
"""Fields of the request that the reply repeats, and what it says without them."""

_INCOMPLETE = {
    "length": "max_output_tokens",
    "context": "max_output_tokens",
    "refusal": "content_filter",
}


def whole(answer: Answer, facts: Facts) -> dict[str, Any]:
    """The reply that is not streamed; also the last event's object."""
    reason = _INCOMPLETE.get(answer.stop)
    status = "completed" if reason is None else "incomplete"
    return _response(facts, status) | {
        "output": [item for item, _ in _items(answer, facts)],
        "incomplete_details": None if reason is None else {"reason": reason},
        "usage": _usage(facts.usage),
        **facts.usage.reply_fields,
    }


def events(answer: Answer, facts: Facts) -> Iterator[Event]:
    """The stream, without its end when the answer breaks off."""
    for number, (name, fields, has_tokens) in enumerate(_stream(answer, facts)):
        yield _event(name, fields, number, has_tokens=has_tokens)


def failed(error: Mapping[str, Any], answer: Answer, facts: Facts) -> Iterator[Event]:
    """The error that ends a stream: `response.failed`."""
    detail = error["error"]
    code = detail.get("code") or "server_error"
    response = _response(facts, "failed") | {
        "output": [item for item, _ in _items(answer, facts)],
        "error": {"code": code, "message": detail["message"]},
    }
    number = sum(1 for _ in _stream(answer, facts))
    yield _event("response.failed", {"response": response}, number, has_tokens=False)


_Fields = tuple[str, dict[str, Any], bool]


def _stream(answer: Answer, facts: Facts) -> Iterator[_Fields]:
    begun = _response(facts, "in_progress")
    yield "response.created", {"response": begun}, False
    yield "response.in_progress", {"response": begun}, False
    for index, (item, call) in enumerate(_items(answer, facts)):
        for name, fields, has_tokens in _item_events(answer, item, call):
            yield name, {"output_index": index} | fields, has_tokens
    if answer.error is None:
        response = whole(answer, facts)
        yield f"response.{response['status']}", {"response": response}, False


def _items(answer: Answer, facts: Facts) -> Iterator[tuple[dict[str, Any], ToolCall | None]]:
    """The output's items, finished, each with the tool call that it is."""
    if thinking := "".join(answer.thinking):
        summary = [{"type": "summary_text", "text": thinking}]
        yield {"id": f"rs_{facts.reply_id}", "type": "reasoning", "summary": summary}, None
    if text := "".join(answer.text):
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        status = "incomplete" if answer.stop in _INCOMPLETE else "completed"
        message = {"id": f"msg_{facts.reply_id}", "type": "message", "role": "assistant"}
        yield message | {"status": status, "content": [part]}, None
    for number, call in enumerate(answer.tool_calls):
        item = {
            "id": f"fc_{number}{facts.reply_id}",
            "type": "function_call",
            "status": "completed",
            "call_id": call_id(call, "call", number, facts),
            "name": call.name,
            "arguments": arguments_of(call),
        }
        yield item, call


def _item_events(
    answer: Answer, item: Mapping[str, Any], call: ToolCall | None
) -> Iterator[_Fields]:
    if call is not None:
        opened: dict[str, Any] = {"status": "in_progress", "arguments": ""}
        inner = _call_events(call)
    elif item["type"] == "message":
        opened, inner = {"status": "in_progress", "content": []}, _text_events(answer, item)
    else:
        opened, inner = {"summary": []}, _summary_events(answer, item)
    yield "response.output_item.added", {"item": {**item, **opened}}, False
    for name, fields, has_tokens in inner:
        yield name, {"item_id": item["id"]} | fields, has_tokens
    yield "response.output_item.done", {"item": item}, False


def _text_events(answer: Answer, item: Mapping[str, Any]) -> Iterator[_Fields]:
    part = item["content"][0]
    at = {"content_index": 0}
    yield "response.content_part.added", at | {"part": part | {"text": ""}}, False
    for piece in pieces(answer.text):
        yield "response.output_text.delta", at | {"delta": piece, "logprobs": []}, True
    yield "response.output_text.done", at | {"text": part["text"], "logprobs": []}, False
    yield "response.content_part.done", at | {"part": part}, False


def _summary_events(answer: Answer, item: Mapping[str, Any]) -> Iterator[_Fields]:
    part = item["summary"][0]
    at = {"summary_index": 0}
    yield "response.reasoning_summary_part.added", at | {"part": part | {"text": ""}}, False
    for piece in pieces(answer.thinking):
        yield "response.reasoning_summary_text.delta", at | {"delta": piece}, True
    yield "response.reasoning_summary_text.done", at | {"text": part["text"]}, False
    yield "response.reasoning_summary_part.done", at | {"part": part}, False


def _call_events(call: ToolCall) -> Iterator[_Fields]:
    for piece in argument_pieces(call):
        yield "response.function_call_arguments.delta", {"delta": piece}, True
    done = {"name": call.name, "arguments": arguments_of(call)}
    yield "response.function_call_arguments.done", done, False


def _event(name: str, fields: Mapping[str, Any], number: int, *, has_tokens: bool) -> Event:
    numbered = {"type": name, "sequence_number": number, **fields}
    return sse(numbered, name=name, has_tokens=has_tokens)


def _response(facts: Facts, status: str) -> dict[str, Any]:
    """A response without output, as the first events carry it."""
    fields: dict[str, Any] = {
        "id": f"resp_{facts.reply_id}",
        "object": "response",
        "created_at": facts.created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": facts.model,
        "output": [],
        "usage": None,
    }
    for name, default in ECHOED.items():
        given = facts.request.get(name)
        fields[name] = default if given is None else given
    return fields


def _usage(usage: Usage) -> dict[str, Any]:
    """Counts; `input_tokens` has cached ones in it."""
    details: dict[str, Any] = {
        "cached_tokens": usage.cache_read,
        "cache_write_tokens": usage.written,
    }
    if usage.written:
        long = usage.cache_write.get("12h", 0)
        split = {"ttl_30m_tokens": usage.written - long, "ttl_12h_tokens": long}
        details["cache_write_tokens_details"] = split
    return {
        "input_tokens": usage.input,
        "input_tokens_details": details,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
        **usage.usage_fields,
    }
