"""A request as the texts that it is made of, in the order in which a provider reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from .tally import as_json, listed, plain

__all__ = ["Part", "PartKind", "parts", "pieces_of"]

PartKind = Literal["tool", "system", "message"]

_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
_SHORTEST = 16  # characters of a piece; shorter ones are everywhere
_END = re.compile(r"\n+|(?<=[.!?:;])\s+")


class Part(Struct, frozen=True):
    """One text of a request.

    Attributes:
        kind: What it is part of.
        path: Where it stands, such as `messages[4].content[1]`.
        text: The text, or as JSON what is none; without cache marks.
        value: What is no text, such as an image; `None` for text.
    """

    kind: PartKind
    path: str
    text: str
    value: Any = None


def parts(endpoint: str, body: Mapping[str, Any]) -> Iterator[Part]:
    """The parts of a request: tools, system prompt, messages."""
    for number, tool in enumerate(listed(body.get("tools"))):
        yield Part("tool", f"tools[{number}]", _json(tool))
    for name in ("system", "instructions"):
        yield from _content("system", name, body.get(name))
    field = "input" if endpoint == "openai.responses" else "messages"
    given = body.get(field)
    if isinstance(given, str):
        yield Part("message", field, given)
    for number, message in enumerate(listed(given)):
        yield from _message(f"{field}[{number}]", plain(message))


def pieces_of(text: str, most: int) -> Iterator[str]:
    """Lines and sentences of `text`, short ones together with what follows; `most` of them."""
    start = number = 0
    for end in _END.finditer(text):
        if end.start() - start < _SHORTEST:
            continue
        yield text[start : end.start()]
        start, number = end.end(), number + 1
        if number == most:
            return
    if len(text) - start >= _SHORTEST:
        yield text[start:]


def _message(path: str, message: Any) -> Iterator[Part]:
    if not isinstance(message, Mapping):
        yield Part("message", path, message if isinstance(message, str) else _json(message))
        return
    kind: PartKind = "system" if message.get("role") in ("system", "developer") else "message"
    if isinstance(message.get("output"), str):  # of a tool, in the Responses format
        yield Part(kind, f"{path}.output", message["output"])
    elif "content" in message:
        yield from _content(kind, f"{path}.content", message["content"])
    else:
        yield Part(kind, path, _json(message))
    if message.get("tool_calls"):
        yield Part(kind, f"{path}.tool_calls", _json(message["tool_calls"]))


def _content(kind: PartKind, path: str, content: Any) -> Iterator[Part]:
    if isinstance(content, str):
        yield Part(kind, path, content)
        return
    for number, block in enumerate(listed(content)):
        block = plain(block)
        held = block.get("text") if isinstance(block, Mapping) else block
        if held is None and isinstance(block, Mapping) and block.get("type") == "tool_result":
            held = block.get("content")
        if isinstance(held, str):
            yield Part(kind, f"{path}[{number}]", held)
        else:
            yield Part(kind, f"{path}[{number}]", _json(block), block)


def _json(value: Any) -> str:
    value = plain(value)
    if isinstance(value, Mapping):
        value = {name: held for name, held in value.items() if name not in _MARKS}
    return as_json(value)
