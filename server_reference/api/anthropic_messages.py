"""The Messages format: `POST /v1/messages`, whole or as server-sent events.

Fields that cannot change the text are taken and ignored: `IGNORED`. Fields that would, and
are not implemented, are refused by name: `NOT_IMPLEMENTED`, with the values that are neutral.

Source: Anthropic API reference, "Messages", "Streaming messages" and "Errors".
"""

from __future__ import annotations

from .chat import ChatRequest, Message
from .errors import ApiError, error_body, shortened
from .events import EndReason, Finished, Started, TextDelta
from .fields import Bounds, Fields, Neutral, TextBlocks, read_object
from .wire import Answer, StreamWriter, encode, sse

__all__ = [
    "BOUNDS",
    "IGNORED",
    "NOT_IMPLEMENTED",
    "ROLES",
    "TEXT",
    "AnthropicMessages",
    "read_request",
]

IGNORED = (
    "cache_control",
    "inference_geo",
    "metadata",
    "service_tier",
    "user_profile_id",
    "workspace_id",
)

NOT_IMPLEMENTED: Neutral = {
    "betas": ([],),
    "container": (),
    "context_management": (),
    "diagnostics": (),
    "mcp_servers": ([],),
    "output_config": ({},),
    "output_format": (),
    "speed": ("standard",),
    "thinking": ({"type": "disabled"},),
    "tool_choice": (),
    "tools": ([],),
}

BOUNDS: dict[str, Bounds] = {
    "max_tokens": Bounds(0),
    "temperature": Bounds(0, 1),
    "top_k": Bounds(0, 2**31 - 1),
    "top_p": Bounds(0, 1),
}
ROLES = ("user", "assistant")
TEXT = TextBlocks("text", "cache_control", {"citations": ([],)})

_KNOWN = (
    "max_tokens",
    "messages",
    "model",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "top_k",
    "top_p",
    *IGNORED,
)
_BLOCKS = (
    "document",
    "image",
    "redacted_thinking",
    "search_result",
    "server_tool_use",
    "thinking",
    "tool_result",
    "tool_use",
)
_STOP_REASONS: dict[EndReason, str] = {
    "stop": "end_turn",
    "stop_sequence": "stop_sequence",
    "length": "max_tokens",
    "context": "model_context_window_exceeded",
}


def read_request(body: bytes, *, counting: bool = False) -> ChatRequest:
    """Check the body of `/v1/messages`, or of `/v1/messages/count_tokens` (`counting`).

    Raises:
        ApiError: What is wrong with it.
    """
    fields = read_object(body)
    fields.check(_KNOWN, neutral=NOT_IMPLEMENTED)
    model = fields.required("model", fields.text("model"))
    max_tokens = fields.integer("max_tokens", BOUNDS["max_tokens"])
    stream = fields.flag("stream")
    if not counting:
        fields.required("max_tokens", max_tokens)
    if max_tokens == 0 and stream:
        raise fields.wrong("max_tokens", "must be at least 1 with stream; 0 only fills the cache")
    messages = _messages(fields)
    prefill = messages.pop()["content"] if messages[-1]["role"] == "assistant" else ""
    if not messages:
        raise fields.wrong("messages", "must hold a user message, not only the answer's start")
    system = fields.content("system", refused=(), text=TEXT)
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return ChatRequest(
        model=model,
        messages=messages,
        prefill=prefill,
        max_tokens=max_tokens,
        temperature=fields.number("temperature", BOUNDS["temperature"], default=1.0),
        top_k=fields.integer("top_k", BOUNDS["top_k"]) or None,
        top_p=fields.number("top_p", BOUNDS["top_p"], default=1.0),
        stop=fields.stops("stop_sequences"),
        stream=stream,
    )


def _messages(fields: Fields) -> list[Message]:
    turns = fields.required("messages", fields.objects("messages"))
    if not turns:
        raise fields.wrong("messages", "must hold at least one message")
    messages = [_message(turn) for turn in turns]
    for turn, message in zip(turns[:-1], messages[:-1], strict=True):
        if not message["content"]:
            raise turn.wrong("content", "must not be empty")
    if not messages[-1]["content"] and messages[-1]["role"] == "user":
        raise turns[-1].wrong("content", "must not be empty")
    return messages


def _message(turn: Fields) -> Message:
    turn.check(("role", "content"), neutral={})
    role = turn.required("role", turn.text("role"))
    if role not in ROLES:
        hint = "; put it into the field system" if role == "system" else ""
        roles = " or ".join(map(repr, ROLES))
        raise turn.wrong("role", f"must be {roles}, not {shortened(role)!r}{hint}")
    content = turn.required("content", turn.content("content", refused=_BLOCKS, text=TEXT))
    return {"role": role, "content": content}


def _usage(started: Started, output_tokens: int) -> dict[str, object]:
    """Counts with every key that clients look for; `input_tokens` leaves cached ones out."""
    return {
        "input_tokens": started.input_tokens - started.cache_read,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": started.cache_read,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output_tokens,
    }


class AnthropicMessages:
    """The format as the front uses it."""

    def read(self, body: bytes) -> ChatRequest:
        return read_request(body)

    def reply(self, answer: Answer, request: ChatRequest, request_id: str) -> bytes:
        message = _message_object(request, request_id)
        if answer.text:
            message["content"] = [{"type": "text", "text": answer.text}]
        message["stop_reason"] = _STOP_REASONS[answer.finished.reason]
        message["stop_sequence"] = answer.finished.stop_sequence
        message["usage"] = _usage(answer.started, answer.finished.output_tokens)
        return encode(message)

    def writer(self, request: ChatRequest, request_id: str) -> StreamWriter:
        return _Writer(request, request_id)


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


class _Writer:
    """message_start, ping, one content block if there is text, message_delta, message_stop."""

    def __init__(self, request: ChatRequest, request_id: str) -> None:
        self._request = request
        self._request_id = request_id
        self._started = Started(0, 0)
        self._block_open = False

    def started(self, event: Started) -> bytes:
        self._started = event
        message = _message_object(self._request, self._request_id)
        message["usage"] = _usage(event, 0)
        return _event("message_start", {"message": message}) + self.ping()

    def text(self, event: TextDelta) -> bytes:
        delta = {"type": "text_delta", "text": event.text}
        written = _event("content_block_delta", {"index": 0, "delta": delta})
        if self._block_open:
            return written
        self._block_open = True
        block = {"type": "text", "text": ""}
        return _event("content_block_start", {"index": 0, "content_block": block}) + written

    def finished(self, event: Finished) -> bytes:
        delta = {
            "stop_reason": _STOP_REASONS[event.reason],
            "stop_sequence": event.stop_sequence,
        }
        usage = _usage(self._started, event.output_tokens)
        closing = _event("content_block_stop", {"index": 0}) if self._block_open else b""
        return closing + _event("message_delta", {"delta": delta, "usage": usage})

    def end(self) -> bytes:
        return _event("message_stop", {})

    def failed(self, error: ApiError) -> bytes:
        return sse(error_body(error, "anthropic", self._request_id), event="error")

    def ping(self) -> bytes:
        return _event("ping", {})


def _event(name: str, fields: dict[str, object]) -> bytes:
    return sse(encode({"type": name, **fields}), event=name)
