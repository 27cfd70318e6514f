"""The Chat Completions format: `POST /v1/chat/completions`, whole or as server-sent events.

Fields that cannot change the text are taken and ignored: `IGNORED`. Fields that would, and
are not implemented, are refused by name: `NOT_IMPLEMENTED`, with the values that are neutral.

Source: OpenAI API reference, "Chat completions" and "Chat completion chunks".
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .chat import ChatRequest, Message
from .errors import ApiError, error_body, shortened
from .events import EndReason, Finished, Started, TextDelta
from .fields import Bounds, Fields, Neutral, TextBlocks, read_object
from .wire import Answer, StreamWriter, encode, sse

__all__ = [
    "BOUNDS",
    "IGNORED",
    "LIMITS",
    "MESSAGE_FIELDS",
    "NOT_IMPLEMENTED",
    "ROLES",
    "STREAM_OPTIONS",
    "TEXT",
    "OpenAIChat",
    "read_request",
]

IGNORED = (
    "metadata",
    "parallel_tool_calls",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
)

NOT_IMPLEMENTED: Neutral = {
    "audio": (),
    "frequency_penalty": (0,),
    "function_call": (),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "moderation": (),
    "n": (1,),
    "presence_penalty": (0,),
    "reasoning_effort": ("none",),
    "response_format": ({"type": "text"},),
    "tool_choice": (),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": ("medium",),
    "web_search_options": (),
}

BOUNDS: dict[str, Bounds] = {
    "max_completion_tokens": Bounds(1),
    "max_tokens": Bounds(1),
    "seed": Bounds(-(2**63), 2**63 - 1),
    "temperature": Bounds(0, 2),
    "top_p": Bounds(0, 1),
}
LIMITS = ("max_completion_tokens", "max_tokens")
"""The newer name and the older one, of which a request gives one."""
STREAM_OPTIONS = ("include_usage", "include_obfuscation")
TEXT = TextBlocks("text", "cache_control", {"citations": ([],)})

_KNOWN = (
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "model",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    *IGNORED,
)
MESSAGE_FIELDS: Neutral = {
    "annotations": ([],),
    "audio": (),
    "function_call": (),
    "name": (),
    "refusal": (),
    "tool_call_id": (),
    "tool_calls": ([],),
}
_PARTS = ("file", "image_url", "input_audio", "refusal")
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_FINISH_REASONS: dict[EndReason, str] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "context": "length",
}


def read_request(body: bytes) -> ChatRequest:
    """Check the body of `/v1/chat/completions`.

    Raises:
        ApiError: What is wrong with it.
    """
    fields = read_object(body)
    fields.check(_KNOWN, neutral=NOT_IMPLEMENTED)
    stream = fields.flag("stream")
    return ChatRequest(
        model=fields.required("model", fields.text("model")),
        messages=_messages(fields),
        max_tokens=_max_tokens(fields),
        temperature=fields.number("temperature", BOUNDS["temperature"], default=1.0),
        top_p=fields.number("top_p", BOUNDS["top_p"], default=1.0),
        seed=fields.integer("seed", BOUNDS["seed"]),
        stop=fields.stops("stop", or_one=True),
        stream=stream,
        include_usage=_include_usage(fields, stream=stream),
    )


def _max_tokens(fields: Fields) -> int | None:
    newer, older = (fields.integer(name, BOUNDS[name]) for name in LIMITS)
    if newer is not None and older is not None:
        raise fields.wrong("max_tokens", "may not stand beside max_completion_tokens; give one")
    return older if newer is None else newer


def _include_usage(fields: Fields, *, stream: bool) -> bool:
    options = fields.object("stream_options")
    if options is None:
        return False
    if not stream:
        raise fields.wrong("stream_options", "is only for stream; set stream or leave it out")
    options.check(STREAM_OPTIONS, neutral={})
    return options.flag("include_usage")


def _messages(fields: Fields) -> list[Message]:
    turns = fields.required("messages", fields.objects("messages"))
    if not turns:
        raise fields.wrong("messages", "must hold at least one message")
    return [_message(turn) for turn in turns]


def _message(turn: Fields) -> Message:
    role = turn.required("role", turn.text("role"))
    if role in ("tool", "function"):
        raise turn.wrong("role", f"{role!r} is not implemented by this server: it has no tools")
    if role not in ROLES:
        raise turn.wrong("role", f"must be one of {', '.join(ROLES)}, not {shortened(role)!r}")
    turn.check(("role", "content"), neutral=MESSAGE_FIELDS)
    content = turn.required("content", turn.content("content", refused=_PARTS, text=TEXT))
    return {"role": ROLES[role], "content": content}


def _usage(started: Started, output_tokens: int) -> dict[str, object]:
    """Counts; `prompt_tokens` has cached ones in it."""
    return {
        "prompt_tokens": started.input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": started.input_tokens + output_tokens,
        "prompt_tokens_details": {"cached_tokens": started.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


class OpenAIChat:
    """The format as the front uses it.

    Args:
        now: Unix seconds, for `created`.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def read(self, body: bytes) -> ChatRequest:
        return read_request(body)

    def reply(self, answer: Answer, request: ChatRequest, request_id: str) -> bytes:
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": _FINISH_REASONS[answer.finished.reason],
        }
        return encode(
            {
                **self._head("chat.completion", request, request_id),
                "choices": [choice],
                "usage": _usage(answer.started, answer.finished.output_tokens),
            }
        )

    def writer(self, request: ChatRequest, request_id: str) -> StreamWriter:
        head = self._head("chat.completion.chunk", request, request_id)
        return _Writer(head, request_id, include_usage=request.include_usage)

    def _head(self, kind: str, request: ChatRequest, request_id: str) -> dict[str, object]:
        return {
            "id": request_id.replace("req_", "chatcmpl-", 1),
            "object": kind,
            "created": int(self._now()),
            "model": request.model,
        }


class _Writer:
    """The role's chunk, text, the finish reason's chunk, counts if asked for, [DONE]."""

    def __init__(self, head: dict[str, object], request_id: str, *, include_usage: bool) -> None:
        self._head = head
        self._request_id = request_id
        self._include_usage = include_usage
        self._started = Started(0, 0)

    def started(self, event: Started) -> bytes:
        self._started = event
        return self._choice({"role": "assistant", "content": "", "refusal": None}, None)

    def text(self, event: TextDelta) -> bytes:
        return self._choice({"content": event.text}, None)

    def finished(self, event: Finished) -> bytes:
        last = self._choice({}, _FINISH_REASONS[event.reason])
        if not self._include_usage:
            return last
        usage = _usage(self._started, event.output_tokens)
        return last + sse(encode({**self._head, "choices": [], "usage": usage}))

    def end(self) -> bytes:
        return sse(b"[DONE]")

    def failed(self, error: ApiError) -> bytes:
        return sse(error_body(error, "openai", self._request_id))

    def ping(self) -> bytes:
        return b": ping\n\n"

    def _choice(self, delta: dict[str, object], finish_reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = {**self._head, "choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return sse(encode(chunk))
