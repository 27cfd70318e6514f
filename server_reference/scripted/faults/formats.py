"""What the events of the three wire formats mean to a fault, and how it changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..answers import Answer, ErrorAnswer, ToolCall, Usage
from ..compile import Compiler
from ..compile_errors import error_fields
from ..request import Received
from .pieces import Piece, Reply, UnfitError, event

__all__ = [
    "chat_chunk",
    "error_piece",
    "insert",
    "is_end",
    "is_terminal",
    "map_fields",
    "prefix_text",
    "usages",
    "with_tools",
    "with_usage",
]

_TERMINAL = ("message_stop", "response.completed", "response.incomplete", "response.failed")


def is_terminal(piece: Piece) -> bool:
    """Whether it is the stream's last event."""
    return piece.text.strip() == b"[DONE]" or piece.fields.get("type") in _TERMINAL


def is_end(piece: Piece) -> bool:
    """Whether it says that the answer is whole, or comes after that."""
    fields = piece.fields
    choices = fields.get("choices")
    if choices:
        return choices[0].get("finish_reason") is not None
    return is_terminal(piece) or fields.get("type") == "message_delta"


def insert(pieces: Sequence[Piece], at: int, *new: Piece) -> list[Piece]:
    """`new` after the first `at` events."""
    return [*pieces[:at], *new, *pieces[at:]]


def map_fields(
    pieces: Sequence[Piece], change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> Iterator[Piece]:
    """Each event with its object changed; `None` leaves it as it is."""
    for piece in pieces:
        fields = piece.fields
        changed = change(fields) if fields else None
        yield piece if changed is None else piece.with_fields(changed)


def prefix_text(pieces: Sequence[Piece], prefix: str) -> list[Piece]:
    """The answer's text with `prefix` before it, wherever the reply says it.

    Raises:
        UnfitError: The reply has no text.
    """
    found = False

    def change(fields: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal found
        is_delta = _put_before(fields, prefix, first=not found)
        found = found or is_delta
        is_whole = _put_before_whole(fields, prefix)
        found = found or (is_whole and fields.get("type") in (None, "message"))
        return fields if is_delta or is_whole else None

    changed = list(map_fields(pieces, change))
    if not found:
        raise UnfitError("the answer has no text; give it some")
    return changed


def _put_before(fields: dict[str, Any], prefix: str, *, first: bool) -> bool:
    """Into the first event that carries text."""
    if not first:
        return False
    for choice in fields.get("choices") or ():
        delta = choice.get("delta") or {}
        if delta.get("content"):
            delta["content"] = prefix + delta["content"]
            return True
    delta = fields.get("delta")
    if isinstance(delta, dict) and delta.get("type") == "text_delta":
        delta["text"] = prefix + delta["text"]
        return True
    if fields.get("type") == "response.output_text.delta":
        fields["delta"] = prefix + fields["delta"]
        return True
    return False


def _put_before_whole(value: Any, prefix: str) -> bool:
    """Wherever the whole text stands."""
    if isinstance(value, list):
        return _any_of(_put_before_whole(one, prefix) for one in value)
    if not isinstance(value, dict):
        return False
    kind, text = value.get("type"), value.get("text")
    if kind in ("output_text", "response.output_text.done", "text") and text:
        value["text"] = prefix + text
        return True
    message = value.get("message")
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        message["content"] = prefix + message["content"]
        return True
    return _any_of(_put_before_whole(one, prefix) for one in value.values())


def error_piece(received: Received, type: str, message: str, number: int) -> Piece:
    """An error as an event of the stream.

    Args:
        number: How many events came before it.
    """
    fields = error_fields(ErrorAnswer(500, type=type, message=message), received)
    if received.api == "anthropic.messages":
        return event(fields, "error")
    if received.api != "openai.responses":
        return event(fields)
    detail = {"code": type, "message": message, "param": None}
    return event({"type": "error", "sequence_number": number, **detail}, "error")


def chat_chunk(reply: Reply, **fields: Any) -> Piece:
    """A chunk of the Chat Completions format with the ids of the others."""
    names = ("id", "object", "created", "model")
    first = next((piece.fields for piece in reply.pieces if piece.fields), {})
    return event({name: first.get(name) for name in names} | fields)


def with_tools(received: Received, *calls: ToolCall) -> Reply:
    """A reply to the same request that asks for tools."""
    answer = Answer(tool_calls=calls)
    return Reply.of(Compiler().answer(answer, received, event_by_event=True))


def usages(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects that hold a `usage` in an event or a whole reply."""
    for holder in (fields, fields.get("message"), fields.get("response")):
        if isinstance(holder, dict) and holder.get("usage"):
            yield holder


def with_usage(reply: Reply, received: Received, usage: Usage) -> list[Piece]:
    """The events with other counts.

    Raises:
        UnfitError: The reply has none.
    """
    sample = Reply.of(Compiler().answer(Answer("x", usage=usage), received, event_by_event=True))
    counts = [holder["usage"] for piece in sample.pieces for holder in usages(piece.fields)]
    found = 0

    def change(fields: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal found
        for holder in usages(fields):
            holder["usage"] = counts[min(found, len(counts) - 1)]
            found += 1
        return fields

    changed = list(map_fields(reply.pieces, change))
    if not found:
        raise UnfitError("the reply has no usage; ask for it with stream_options.include_usage")
    return changed


def _any_of(found: Iterable[bool]) -> bool:
    """Whether one is true, after all have been looked at."""
    return any(list(found))
