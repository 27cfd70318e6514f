"""What the compilers of the three formats share: facts of a call, events, pieces of text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from .answers import ToolCall, Usage

__all__ = [
    "Event",
    "Facts",
    "argument_pieces",
    "arguments_of",
    "call_id",
    "encode",
    "pieces",
    "sse",
]

encode = msgspec.json.encode

_WORD = re.compile(r"\s*\S+\s*\Z|\s*\S+|\s+")
_ARGUMENT_PIECE = 16


@dataclass(frozen=True, slots=True)
class Facts:
    """What a reply says besides its answer.

    Attributes:
        reply_id: What its ids end in.
        created: Unix seconds.
        request: The request's body.
    """

    reply_id: str
    created: int
    model: str
    usage: Usage
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event, or a whole reply.

    Attributes:
        has_tokens: Whether the model made it; time passes before the next one.
    """

    data: bytes
    has_tokens: bool = False


def sse(fields: Mapping[str, Any], *, name: str | None = None, has_tokens: bool = False) -> Event:
    """`fields` as one event."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return Event(head + b"data: " + encode(fields) + b"\n\n", has_tokens)


def pieces(text: str | Sequence[str]) -> list[str]:
    """A list as it is; a string cut before each word, nothing of it lost."""
    return _WORD.findall(text) if isinstance(text, str) else [one for one in text if one]


def arguments_of(call: ToolCall) -> str:
    """A tool call's arguments as the text that is sent."""
    given = call.arguments
    return given if isinstance(given, str) else encode(given).decode()


def argument_pieces(call: ToolCall) -> list[str]:
    """The arguments, cut every few characters."""
    text = arguments_of(call)
    return [text[at : at + _ARGUMENT_PIECE] for at in range(0, len(text), _ARGUMENT_PIECE)]


def call_id(call: ToolCall, prefix: str, number: int, facts: Facts) -> str:
    """The tool call's own id, or one made of the reply's."""
    return call.id or f"{prefix}_{number}{facts.reply_id}"
