"""The Responses format: `POST /v1/responses`, whole or as server-sent events.

Fields that cannot change the text are taken and ignored: `IGNORED`. Fields that would, and
are not implemented, are refused by name: `NOT_IMPLEMENTED`, with the values that are neutral.
Nothing is stored: a response cannot be fetched later or named by `previous_response_id`.

Source: OpenAI API reference, "Responses" and "Responses: streaming events".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .chat import ChatRequest, Message
from .errors import shortened
from .fields import Bounds, Fields, Neutral, TextBlocks, read_object
from .openai_responses_replies import Response, ResponseWriter
from .openai_tools import read_arguments, read_choice, read_format, read_tools
from .tools import call, check_results
from .wire import Answer, StreamWriter, encode

__all__ = [
    "BOUNDS",
    "CALLER",
    "IGNORED",
    "INCLUDED",
    "INPUT_TEXT",
    "ITEM_FIELDS",
    "LOGPROBS",
    "MESSAGE_FIELDS",
    "NOT_IMPLEMENTED",
    "OPTIONS",
    "OUTPUT_TEXT",
    "ROLES",
    "OpenAIResponses",
    "read_request",
]

IGNORED = (
    "max_tool_calls",
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "user",
)

NOT_IMPLEMENTED: Neutral = {
    "access_programs": (),
    "background": (False,),
    "background_options": (),
    "context_management": ([],),
    "conversation": (),
    "image": (),
    "moderation": (),
    "previous_response_id": (),
    "prompt": (),
    "store": (False,),
    "truncation": ("disabled",),
}

BOUNDS: dict[str, Bounds] = {
    "max_output_tokens": Bounds(1),
    "temperature": Bounds(0, 2),
    "top_logprobs": Bounds(0, 20),
    "top_p": Bounds(0, 1),
}

OPTIONS: dict[str, tuple[tuple[str, ...], Neutral]] = {
    "prompt_cache_options": (
        ("mode", "ttl"),
        {"comparison_response_id": (), "prewarm": (False,)},
    ),
    "reasoning": (
        (),
        {
            "context": ("auto",),
            "effort": ("none",),
            "generate_summary": (),
            "mode": ("standard",),
            "summary": (),
        },
    ),
    "stream_options": (("include_obfuscation",), {}),
    "text": (("format",), {"verbosity": ("medium",)}),
}
"""Objects whose fields are ignored, or not implemented with these neutral values."""

LOGPROBS = "message.output_text.logprobs"
INCLUDED = (LOGPROBS, "reasoning.encrypted_content")
"""What `include` may name; there is no reasoning here to be encrypted."""

_KNOWN = (
    "include",
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "stream",
    "tool_choice",
    "tools",
    *BOUNDS,
    *IGNORED,
    *OPTIONS,
)

MESSAGE_FIELDS: Neutral = {"phase": ()}
_PARTS = ("computer_screenshot", "input_audio", "input_file", "input_image", "refusal")
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_MARK = "prompt_cache_breakpoint"
INPUT_TEXT = TextBlocks("input_text", (_MARK,), {})
OUTPUT_TEXT = TextBlocks("output_text", (_MARK, "logprobs"), {"annotations": ([],)})
ITEM_FIELDS = {
    "function_call": ("arguments", "call_id", "id", "name", "status", "type"),
    "function_call_output": ("call_id", "id", "output", "status", "type"),
}
"""Items of the input besides messages, each with its fields."""
CALLER: Neutral = {"async": (False,), "caller": ({"type": "direct"},), "namespace": ()}


def read_request(body: bytes) -> ChatRequest:
    """Check the body of `/v1/responses`.

    Raises:
        ApiError: What is wrong with it.
    """
    fields = read_object(body)
    fields.check(_KNOWN, neutral=NOT_IMPLEMENTED)
    _check_options(fields)
    instructions = fields.text("instructions")
    messages = _messages(fields)
    if instructions:
        messages.insert(0, {"role": "system", "content": instructions})
    tools = read_tools(fields, nested=False)
    text = fields.object("text")
    format = None if text is None else text.object("format")
    return ChatRequest(
        model=fields.required("model", fields.text("model")),
        messages=messages,
        max_tokens=fields.integer("max_output_tokens", BOUNDS["max_output_tokens"]),
        temperature=fields.number("temperature", BOUNDS["temperature"], default=1.0),
        top_p=fields.number("top_p", BOUNDS["top_p"], default=1.0),
        logprobs=_logprobs(fields),
        tools=tools,
        tool_choice=read_choice(fields, tools, nested=False),
        output_schema=None if format is None else read_format(format, nested=False),
        output_field="text.format",
        stream=fields.flag("stream"),
        repeated=_repeated(fields),
        messages_field="input",
    )


def _logprobs(fields: Fields) -> int | None:
    """How many of the likeliest are told; `None`: nothing is."""
    asked = fields.items("include") or []
    for one in asked:
        if one not in INCLUDED:
            listed = " or ".join(map(repr, INCLUDED))
            given = shortened(one) if isinstance(one, str) else one
            raise fields.wrong("include", f"may hold {listed} here, not {given!r}")
    top = fields.integer("top_logprobs", BOUNDS["top_logprobs"])
    if LOGPROBS in asked:
        return top or 0
    if top:
        raise fields.wrong("top_logprobs", f"is only for {LOGPROBS}; put it into include")
    return None


def _repeated(fields: Fields) -> dict[str, Any]:
    """Fields of the request that the response repeats, where they were given."""
    names = ("instructions", "parallel_tool_calls", "text", "tool_choice", "tools")
    return {name: value for name in names if (value := fields.value(name)) is not None}


def _check_options(fields: Fields) -> None:
    """Refuse what stands inside of options and is not implemented."""
    for name, (known, neutral) in OPTIONS.items():
        if (options := fields.object(name)) is not None:
            options.check(known, neutral=neutral)
    if fields.value("stream_options") is not None and not fields.flag("stream"):
        raise fields.wrong("stream_options", "is only for stream; set stream or leave it out")


def _messages(fields: Fields) -> list[Message]:
    value = fields.required("input", fields.value("input"))
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    items = fields.objects("input")
    if not items:
        raise fields.wrong("input", "must hold at least one message")
    messages: list[Message] = []
    for item in items:
        _add(messages, item)
    check_results(messages, fields, "input")
    return messages


def _add(messages: list[Message], item: Fields) -> None:
    """Add an item's message; a call belongs to the assistant's message before it."""
    kind = item.text("type") or "message"
    if kind == "message":
        messages.append(_message(item))
    elif kind == "function_call":
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": ""})
        messages[-1].setdefault("tool_calls", []).append(_call(item))
    elif kind == "function_call_output":
        messages.append(_result(item))
    else:
        raise item.wrong(
            "type",
            f"{shortened(kind)!r} is not implemented by this server; "
            f"send messages and function calls",
        )


def _message(item: Fields) -> Message:
    role = item.required("role", item.text("role"))
    if role not in ROLES:
        raise item.wrong("role", f"must be one of {', '.join(ROLES)}, not {shortened(role)!r}")
    item.check(("id", "type", "status", "role", "content"), neutral=MESSAGE_FIELDS)
    text = OUTPUT_TEXT if role == "assistant" else INPUT_TEXT
    content = item.required("content", item.content("content", refused=_PARTS, text=text))
    return {"role": ROLES[role], "content": content}


def _call(item: Fields) -> dict[str, Any]:
    item.check(ITEM_FIELDS["function_call"], neutral=CALLER)
    return call(
        item.required("call_id", item.text("call_id")),
        item.required("name", item.text("name")),
        read_arguments(item.required("arguments", item.text("arguments"))),
    )


def _result(item: Fields) -> Message:
    item.check(ITEM_FIELDS["function_call_output"], neutral=CALLER)
    return {
        "role": "tool",
        "tool_call_id": item.required("call_id", item.text("call_id")),
        "content": item.required("output", item.content("output", refused=_PARTS, text=INPUT_TEXT)),
    }


class OpenAIResponses:
    """The format as the front uses it.

    Args:
        now: Unix seconds, for `created_at`.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def read(self, body: bytes) -> ChatRequest:
        return read_request(body)

    def reply(self, answer: Answer, request: ChatRequest, request_id: str) -> bytes:
        (choice,) = answer.choices.values()
        return encode(self._response(request, request_id).ended(answer.started, choice))

    def writer(self, request: ChatRequest, request_id: str) -> StreamWriter:
        return ResponseWriter(self._response(request, request_id))

    def _response(self, request: ChatRequest, request_id: str) -> Response:
        return Response(request, request_id, created_at=int(self._now()))
