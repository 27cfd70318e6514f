"""Faults in what the events hold: chunks without choices, odd tools, news of other kinds.

Source: OpenAI API reference, "Chat completion chunks"; Anthropic API reference, "Streaming
messages".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from ..answers import ToolCall
from ..ops import Script
from ..request import Received
from .formats import chat_chunk, insert, is_end, map_fields, with_tools
from .parameters import Number
from .pieces import Piece, Reply, UnfitError, event
from .presets import Break, preset

__all__ = [
    "arguments_split",
    "choice_without_delta",
    "chunk_without_choices",
    "null_arguments",
    "ping_between",
    "tool_delta_before_start",
    "tool_index_reused",
    "unknown_block",
    "unknown_block_index",
    "unknown_event",
    "unknown_fields",
]

_WEATHER = ToolCall("get_weather", {"city": "Paris"}, "call_weather")
_TIME = ToolCall("get_time", {"zone": "UTC"}, "call_time")
_NO_CHOICES = (
    "pydantic-ai#164; logfire#64; langfuse#2833; litellm#35785; llama_index#7640; llmeter PR#34"
)
_UNKNOWN = "openai-python#2255; anthropic-sdk-python#576, #845"
_ODD_TOOLS = "opentelemetry-python-contrib PR#4350; openllmetry PR#4079"
# After 16 characters of the arguments a new event begins.
_ARGUMENTS = {
    "number": '{"price_eur": 12345.67}',
    "escape": '{"note": "lines\\nand tabs"}',
    "pair": '{"note": "\\ud83d\\ude00"}',
    "literal": '{"is_ready": true}',
}


@preset(
    "SHAPE",
    _NO_CHOICES,
    right="A chunk without choices is ordinary: nothing is looked up in it unseen.",
    needs="stream",
    apis="openai.chat",
)
def chunk_without_choices(at: Literal["start", "middle", "end"] = "start") -> Break:
    """A chunk has no choices, as Azure's first one that holds the content filter's results.

    Args:
        at: Where it comes: before all others, after the first, or before the terminal marker.
    """

    def inserted(reply: Reply, received: Received) -> Script:
        results = [{"prompt_index": 0, "content_filter_results": {}}]
        chunk = chat_chunk(reply, choices=[], prompt_filter_results=results)
        place = {"start": 0, "middle": 1, "end": len(reply.pieces) - 1}[at]
        return reply.script(insert(reply.pieces, place, chunk))

    return inserted


@preset(
    "SHAPE",
    _UNKNOWN,
    right="A choice without a delta carries no content; keep it, and go on.",
    needs="stream",
    apis="openai.chat",
)
def choice_without_delta() -> Break:
    """A choice has no delta, as in Azure's asynchronous filter."""

    def inserted(reply: Reply, received: Received) -> Script:
        offsets = {"check_offset": 0, "start_offset": 0, "end_offset": 1}
        choice = {"index": 0, "finish_reason": None, "content_filter_offsets": offsets}
        return reply.script(insert(reply.pieces, 2, chat_chunk(reply, choices=[choice])))

    return inserted


@preset(
    "SHAPE",
    "smolagents#1569, PR#1958; agno#8879; apache/maka#1976",
    right="Tell calls apart by their id first: two calls, each with its own name and arguments.",
    needs="stream",
    apis="openai.chat",
)
def tool_index_reused() -> Break:
    """Two tool calls with ids of their own share one index; the answer becomes these calls."""

    def reused(reply: Reply, received: Received) -> Script:
        tools = with_tools(received, _WEATHER, _TIME)

        def change(fields: dict[str, Any]) -> dict[str, Any]:
            for call in _tool_deltas(fields):
                call["index"] = 0
            return fields

        return reply.script(map_fields(tools.pieces, change))

    return reused


@preset(
    "SHAPE",
    _ODD_TOOLS,
    right="Null arguments are no arguments yet.",
    needs="stream",
    apis="openai.chat",
)
def null_arguments() -> Break:
    """A tool call begins with arguments that are null; the answer becomes this call."""

    def nulled(reply: Reply, received: Received) -> Script:
        def change(fields: dict[str, Any]) -> dict[str, Any]:
            for call in _tool_deltas(fields):
                call["function"]["arguments"] = call["function"]["arguments"] or None
            return fields

        return reply.script(map_fields(with_tools(received, _WEATHER).pieces, change))

    return nulled


@preset(
    "SHAPE",
    _ODD_TOOLS,
    right="Skip a delta for a block that never began; who only watches never raises.",
    needs="stream",
    apis="anthropic.messages",
)
def unknown_block_index(index: Number = 7) -> Break:
    """A delta is for a block that never began.

    Args:
        index: The block's number.
    """
    delta = {"type": "text_delta", "text": "lost"}
    lost = _named("content_block_delta", index=index, delta=delta)
    return lambda reply, received: reply.script(insert(reply.pieces, _end(reply), lost))


@preset(
    "SHAPE",
    _ODD_TOOLS,
    right="Keep the arguments until the call begins, or skip them; never raise on sight.",
    needs="stream",
    apis=("openai.chat", "anthropic.messages"),
)
def tool_delta_before_start() -> Break:
    """Arguments of a tool call come before the call begins; the answer becomes this call."""

    def swapped(reply: Reply, received: Received) -> Script:
        pieces = list(with_tools(received, _WEATHER).pieces)
        deltas = [n for n, piece in enumerate(pieces) if _arguments_of(piece.fields)]
        starts = [n for n, piece in enumerate(pieces[: deltas[0]]) if _begins(piece.fields)]
        first, start = deltas[0], starts[-1]
        pieces.insert(start, pieces.pop(first))
        return reply.script(pieces)

    return swapped


@preset(
    "SHAPE",
    _UNKNOWN,
    right="Skip it or hand it on as it is; never raise.",
    needs="stream",
)
def unknown_event(type: str = "vendor.note") -> Break:
    """An event has a type that no reference names.

    Args:
        type: The type.
    """

    def inserted(reply: Reply, received: Received) -> Script:
        note = _named(type, note="new")
        if received.api == "openai.chat":
            note = chat_chunk(reply, type=type, note="new", choices=[])
        return reply.script(insert(reply.pieces, 1, note))

    return inserted


@preset(
    "SHAPE",
    _UNKNOWN,
    right="Keep a block of an unknown type as it came; the others stay as they are.",
    needs="stream",
    apis="anthropic.messages",
)
def unknown_block(type: str = "vendor_block") -> Break:
    """A content block and its delta have types that no reference names.

    Args:
        type: The block's type.
    """

    def inserted(reply: Reply, received: Received) -> Script:
        index = sum(p.fields.get("type") == "content_block_start" for p in reply.pieces)
        block = [
            _named("content_block_start", index=index, content_block={"type": type, "note": "new"}),
            _named("content_block_delta", index=index, delta={"type": f"{type}_delta"}),
            _named("content_block_stop", index=index),
        ]
        return reply.script(insert(reply.pieces, _end(reply), *block))

    return inserted


@preset(
    "SHAPE",
    _UNKNOWN,
    right="Further fields are kept or skipped; never raise.",
)
def unknown_fields(name: str = "vendor_field") -> Break:
    """Every object has a field that no reference names.

    Args:
        name: The field.
    """

    def widened(fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {name: {"nested": [1, None]}}

    return lambda reply, received: reply.script(map_fields(reply.pieces, widened))


@preset(
    "SHAPE",
    "anthropic-sdk-python#845; the protocol's own ping",
    right="No output and no progress; it may keep the connection's timer from firing.",
    needs="stream",
    apis=("anthropic.messages", "openai.responses"),
)
def ping_between(every: Number = 1) -> Break:
    """Events of the type `ping` come between the others.

    Args:
        every: Events between two of them.
    """

    def pinged(reply: Reply) -> Iterable[Piece]:
        for number, piece in enumerate(reply.pieces, 1):
            yield piece
            if number % every == 0 and number < len(reply.pieces):
                yield _named("ping")

    return lambda reply, received: reply.script(pinged(reply))


@preset(
    "SHAPE",
    "instructor#995; pydantic-ai PR#6519",
    right="What is parsed of unfinished JSON never holds a value that can still change.",
    needs="stream",
)
def arguments_split(
    inside: Literal["number", "escape", "pair", "literal"] = "number", cut: bool = False
) -> Break:
    """Arguments of a tool call break inside a value; the answer becomes this call.

    Args:
        inside: A number, an escape, a pair of surrogates, or `true`.
        cut: Whether the stream ends there.
    """

    def split(reply: Reply, received: Received) -> Script:
        tools = with_tools(received, ToolCall("note", _ARGUMENTS[inside], "call_note"))
        deltas = [n for n, piece in enumerate(tools.pieces) if _arguments_of(piece.fields)]
        if not deltas:
            raise UnfitError("no wire format to ask for tools in")
        return reply.script(tools.pieces[: deltas[0] + 1] if cut else tools.pieces)

    return split


def _named(name: str, **fields: Any) -> Piece:
    return event({"type": name} | fields, name)


def _end(reply: Reply) -> int:
    return next((n for n, piece in enumerate(reply.pieces) if is_end(piece)), len(reply.pieces))


def _tool_deltas(fields: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for choice in fields.get("choices") or ():
        yield from choice["delta"].get("tool_calls") or ()


def _begins(fields: dict[str, Any]) -> bool:
    """Whether a tool call begins with it."""
    if fields.get("type") == "content_block_start":
        return True
    return any("id" in call for call in _tool_deltas(fields))


def _arguments_of(fields: dict[str, Any]) -> str:
    """The piece of a tool call's arguments that an event carries."""
    delta = fields.get("delta")
    if isinstance(delta, dict) and "partial_json" in delta:
        return str(delta["partial_json"])
    if fields.get("type") == "response.function_call_arguments.delta":
        return str(delta)
    return "".join(call["function"]["arguments"] for call in _tool_deltas(fields))
