"""Replies of the Chat Completions format: whole completions, and chunks of streamed ones.

Source: OpenAI API reference, "Chat completions" and "Chat completion chunks".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .chat import ChatRequest
from .errors import ApiError, error_body
from .events import (
    ArgumentsDelta,
    EndReason,
    Finished,
    Logprob,
    Started,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolEvent,
)
from .openai_logprobs import IMPOSSIBLE, with_top
from .wire import Answer, Choice, ToolUse, encode, sse

__all__ = ["ChatWriter", "head", "whole"]

_FINISH_REASONS: dict[EndReason, str] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "context": "length",
    "tool_calls": "tool_calls",
}


def head(kind: str, request: ChatRequest, request_id: str, *, created: int) -> dict[str, object]:
    """What completions and all of their chunks have in common."""
    return {
        "id": request_id.replace("req_", "chatcmpl-", 1),
        "object": kind,
        "created": created,
        "model": request.model,
    }


def whole(answer: Answer, request: ChatRequest) -> dict[str, object]:
    """A completion, without its head."""
    choices = [
        _choice(index, choice, has_logprobs=request.logprobs is not None)
        for index, choice in sorted(answer.choices.items())
    ]
    reply: dict[str, object] = {
        "choices": choices,
        "usage": _usage(answer.started, answer.output_tokens),
    }
    if request.prompt_logprobs is not None:
        told = answer.started.logprobs
        reply["prompt_logprobs"] = [None, *map(_of_prompt, told)]  # the first has nothing before it
    return reply


def _choice(index: int, choice: Choice, *, has_logprobs: bool) -> dict[str, object]:
    assert choice.finished is not None
    content = None if choice.calls and not choice.text else choice.text
    message: dict[str, object] = {"role": "assistant", "content": content, "refusal": None}
    if choice.calls:
        message["tool_calls"] = [_call(call) for call in choice.calls]
    return {
        "index": index,
        "message": message,
        "logprobs": _logprobs(choice.logprobs) if has_logprobs else None,
        "finish_reason": _FINISH_REASONS[choice.finished.reason],
    }


def _call(call: ToolUse) -> dict[str, object]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": f"call_{call.id}", "type": "function", "function": function}


def _usage(started: Started, output_tokens: int) -> dict[str, object]:
    """Counts; `prompt_tokens` has cached ones in it."""
    return {
        "prompt_tokens": started.input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": started.input_tokens + output_tokens,
        "prompt_tokens_details": {"cached_tokens": started.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _logprobs(tokens: Iterable[Logprob]) -> dict[str, object]:
    return {"content": [with_top(one) for one in tokens], "refusal": None}


def _of_prompt(one: Logprob) -> dict[str, object]:
    """A token of the prompt and the likeliest in its place, by their ids."""
    return {
        str(token.token_id): {
            "logprob": max(token.logprob, IMPOSSIBLE),
            "decoded_token": token.bytes.decode("utf-8", "replace"),
        }
        for token in (one, *one.top)
    }


class ChatWriter:
    """The roles' chunks, text and calls, the finish reasons', counts if asked for, [DONE].

    Args:
        named: What every chunk starts with.
    """

    def __init__(self, named: dict[str, object], request: ChatRequest, request_id: str) -> None:
        self._head = named
        self._request = request
        self._request_id = request_id
        self._started = Started(0, 0)
        self._num_unfinished = request.n
        self._output_tokens = 0
        self._calls: dict[int, int] = {}

    def started(self, event: Started) -> bytes:
        self._started = event
        role = {"role": "assistant", "content": "", "refusal": None}
        return b"".join(self._chunk(index, role) for index in range(self._request.n))

    def text(self, event: TextDelta) -> bytes:
        logprobs = _logprobs(event.logprobs) if event.logprobs else None
        return self._chunk(event.index, {"content": event.text}, logprobs=logprobs)

    def tool_call(self, event: ToolEvent) -> bytes:
        match event:
            case ToolCallStarted():
                number = self._calls[event.index] = self._calls.get(event.index, -1) + 1
                delta = {"index": number, **_call(ToolUse(event.id, event.name))}
            case ArgumentsDelta():
                number = self._calls[event.index]
                delta = {"index": number, "function": {"arguments": event.text}}
            case ToolCallFinished():
                return b""
        return self._chunk(event.index, {"tool_calls": [delta]})

    def finished(self, event: Finished) -> bytes:
        self._num_unfinished -= 1
        self._output_tokens += event.output_tokens
        last = self._chunk(event.index, {}, finish_reason=_FINISH_REASONS[event.reason])
        if self._num_unfinished or not self._request.include_usage:
            return last
        usage = _usage(self._started, self._output_tokens)
        return last + sse(encode({**self._head, "choices": [], "usage": usage}))

    def end(self) -> bytes:
        return sse(b"[DONE]")

    def failed(self, error: ApiError) -> bytes:
        return sse(error_body(error, "openai", self._request_id))

    def ping(self) -> bytes:
        return b": ping\n\n"

    def _chunk(
        self,
        index: int,
        delta: Mapping[str, object],
        *,
        finish_reason: str | None = None,
        logprobs: dict[str, object] | None = None,
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        chunk = {**self._head, "choices": [choice]}
        if self._request.include_usage:
            chunk["usage"] = None
        return sse(encode(chunk))
