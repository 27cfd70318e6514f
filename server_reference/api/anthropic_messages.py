"""The Messages format: `POST /v1/messages`, whole or as server-sent events.

Fields that cannot change the text are taken and ignored: `IGNORED`. Fields that would, and
are not implemented, are refused by name: `NOT_IMPLEMENTED`, with the values that are neutral.

Source: Anthropic API reference, "Messages", "Streaming messages" and "Errors".
"""

from __future__ import annotations

from .anthropic_replies import MessageWriter, whole
from .anthropic_tools import (
    read_choice,
    read_results,
    read_tools,
    read_turn_with_calls,
)
from .chat import ChatRequest, Message
from .errors import shortened
from .fields import Bounds, Fields, Neutral, TextBlocks, read_object
from .tools import check_results, schema_source
from .wire import Answer, StreamWriter, encode

__all__ = [
    "BOUNDS",
    "IGNORED",
    "NOT_IMPLEMENTED",
    "OUTPUT_CONFIG",
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
    "speed": ("standard",),
    "thinking": ({"type": "disabled"},),
}

OUTPUT_CONFIG: Neutral = {"effort": ("high",), "task_budget": ()}
"""Fields of `output_config` besides `format`."""

BOUNDS: dict[str, Bounds] = {
    "max_tokens": Bounds(0),
    "temperature": Bounds(0, 1),
    "top_k": Bounds(0, 2**31 - 1),
    "top_p": Bounds(0, 1),
}
ROLES = ("user", "assistant")
TEXT = TextBlocks("text", ("cache_control",), {"citations": ([],)})

_KNOWN = (
    "max_tokens",
    "messages",
    "model",
    "output_config",
    "output_format",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "tool_choice",
    "tools",
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
)


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
    messages, prefill = _messages(fields)
    tools = read_tools(fields)
    choice = read_choice(fields, tools)
    schema = _output_schema(fields)
    if prefill and (schema is not None or choice.mode == "required"):
        raise fields.wrong(
            "messages", "may not end with the answer's start where its form is prescribed"
        )
    return ChatRequest(
        model=model,
        messages=messages,
        prefill=prefill,
        max_tokens=max_tokens,
        temperature=fields.number("temperature", BOUNDS["temperature"], default=1.0),
        top_k=fields.integer("top_k", BOUNDS["top_k"]) or None,
        top_p=fields.number("top_p", BOUNDS["top_p"], default=1.0),
        stop=fields.stops("stop_sequences"),
        tools=tools,
        tool_choice=choice,
        output_schema=schema,
        output_field="output_config.format" if fields.value("output_config") else "output_format",
        stream=stream,
    )


def _output_schema(fields: Fields) -> str | None:
    """The schema that the answer must match: its newer place, or its older one."""
    config = fields.object("output_config")
    if config is not None:
        config.check(("format",), neutral=OUTPUT_CONFIG)
    newer = None if config is None else config.object("format")
    older = fields.object("output_format")
    if newer is not None and older is not None:
        raise fields.wrong("output_format", "may not stand beside output_config.format; give one")
    format = newer or older
    if format is None:
        return None
    format.check(("type", "schema"), neutral={})
    format.one_of("type", ("json_schema",))
    return schema_source(format.required("schema", format.mapping("schema")))


def _messages(fields: Fields) -> tuple[list[Message], str]:
    """The conversation, and the answer's start if it ends with that."""
    turns = fields.required("messages", fields.objects("messages"))
    if not turns:
        raise fields.wrong("messages", "must hold at least one message")
    messages = [message for turn in turns for message in _turn(turn, is_last=turn is turns[-1])]
    check_results(messages, fields, "messages")
    prefill = messages.pop()["content"] if messages[-1]["role"] == "assistant" else ""
    if not messages:
        raise fields.wrong("messages", "must hold a user message, not only the answer's start")
    system = fields.content("system", refused=(), text=TEXT)
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return messages, prefill


def _turn(turn: Fields, *, is_last: bool) -> list[Message]:
    turn.check(("role", "content"), neutral={})
    role = turn.required("role", turn.text("role"))
    if role not in ROLES:
        hint = "; put it into the field system" if role == "system" else ""
        roles = " or ".join(map(repr, ROLES))
        raise turn.wrong("role", f"must be {roles}, not {shortened(role)!r}{hint}")
    if isinstance(turn.required("content", turn.value("content")), str):
        messages = [{"role": role, "content": turn.text("content")}]
    elif role == "user":
        messages = read_results(turn, TEXT, refused=_BLOCKS)
    else:
        messages = read_turn_with_calls(turn, TEXT, refused=_BLOCKS)
    is_prefill = is_last and role == "assistant"
    if not (is_prefill or any(one["content"] or len(one) > 2 for one in messages)):
        raise turn.wrong("content", "must not be empty")
    return messages


class AnthropicMessages:
    """The format as the front uses it."""

    def read(self, body: bytes) -> ChatRequest:
        return read_request(body)

    def reply(self, answer: Answer, request: ChatRequest, request_id: str) -> bytes:
        return encode(whole(answer, request, request_id))

    def writer(self, request: ChatRequest, request_id: str) -> StreamWriter:
        return MessageWriter(request, request_id)
