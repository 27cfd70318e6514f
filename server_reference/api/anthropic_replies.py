"""Replies of the Messages format: whole messages, and the events of streamed ones.

Source: Anthropic API reference, "Messages", "Streaming messages" and "Errors".
"""

from __future__ import annotations

import msgspec

from .chat import ChatRequest
from .errors import ApiError, error_body
from .events import (
    ArgumentsDelta,
    EndReason,
    Finished,
    Started,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolEvent,
)
from .wire import Answer, ToolUse, encode, sse

__all__ = ["MessageWriter", "whole"]

_STOP_REASONS: dict[EndReason, str] = {
    "stop": "end_turn",
    "stop_sequence": "stop_sequence",
    "length": "max_tokens",
    "context": "model_context_window_exceeded",
    "tool_calls": "tool_use",
}


def whole(answer: Answer, request: ChatRequest, request_id: str) -> dict[str, object]:
    """A message."""
    (choice,) = answer.choices.values()
    assert choice.finished is not None
    return _message_object(request, request_id) | {
        "content": [block for part in choice.parts if (block := _block(part))],
        "stop_reason": _STOP_REASONS[choice.finished.reason],
        "stop_sequence": choice.finished.stop_sequence,
        "usage": _usage(answer.started, choice.finished.output_tokens),
    }


def _block(part: str | ToolUse) -> dict[str, object] | None:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.is_complete:
        # As the model wrote it: not all that is JSON, such as 1e999, can be decoded.
        return _tool_use(part.id, part.name, msgspec.Raw(part.arguments.encode()))
    # A whole reply cannot hold half an object.
    return {"type": "text", "text": part.arguments} if part.arguments else None


def _tool_use(id: str, name: str, arguments: object) -> dict[str, object]:
    return {"type": "tool_use", "id": f"toolu_{id}", "name": name, "input": arguments}


def _message_object(request: ChatRequest, request_id: str) -> dict[str, object]:
    return {
        "id": request_id.replace("req_", "msg_", 1),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(started: Started, output_tokens: int) -> dict[str, object]:
    """Counts with every key that clients look for; `input_tokens` leaves cached ones out."""
    return {
        "input_tokens": started.input_tokens - started.cache_read,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": started.cache_read,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output_tokens,
    }


class MessageWriter:
    """message_start, ping, a content block per text and call, message_delta, message_stop."""

    def __init__(self, request: ChatRequest, request_id: str) -> None:
        self._request = request
        self._request_id = request_id
        self._started = Started(0, 0)
        self._open: str | None = None  # type of the block that is open
        self._num_blocks = 0

    def started(self, event: Started) -> bytes:
        self._started = event
        message = _message_object(self._request, self._request_id)
        message["usage"] = _usage(event, 0)
        return _event("message_start", {"message": message}) + self.ping()

    def text(self, event: TextDelta) -> bytes:
        opening = b""
        if self._open != "text":
            opening = self._start({"type": "text", "text": ""})
        return opening + self._delta({"type": "text_delta", "text": event.text})

    def tool_call(self, event: ToolEvent) -> bytes:
        match event:
            case ToolCallStarted():
                return self._start(_tool_use(event.id, event.name, {}))
            case ArgumentsDelta():
                return self._delta({"type": "input_json_delta", "partial_json": event.text})
            case ToolCallFinished():
                return self._stop()

    def finished(self, event: Finished) -> bytes:
        delta = {
            "stop_reason": _STOP_REASONS[event.reason],
            "stop_sequence": event.stop_sequence,
        }
        usage = _usage(self._started, event.output_tokens)
        return self._stop() + _event("message_delta", {"delta": delta, "usage": usage})

    def end(self) -> bytes:
        return _event("message_stop", {})

    def failed(self, error: ApiError) -> bytes:
        return sse(error_body(error, "anthropic", self._request_id), event="error")

    def ping(self) -> bytes:
        return _event("ping", {})

    def _start(self, block: dict[str, object]) -> bytes:
        """Open a block, and end the one before it."""
        closing = self._stop()
        self._open = str(block["type"])
        fields = {"index": self._num_blocks, "content_block": block}
        return closing + _event("content_block_start", fields)

    def _delta(self, delta: dict[str, object]) -> bytes:
        return _event("content_block_delta", {"index": self._num_blocks, "delta": delta})

    def _stop(self) -> bytes:
        if self._open is None:
            return b""
        self._open, index = None, self._num_blocks
        self._num_blocks += 1
        return _event("content_block_stop", {"index": index})


def _event(name: str, fields: dict[str, object]) -> bytes:
    return sse(encode({"type": name, **fields}), event=name)
