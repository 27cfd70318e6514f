"""The prompt of a Chat or Responses request: tools, instructions, messages or items.

Source: developers.openai.com, "Prompt caching"; the content types that have a
`prompt_cache_breakpoint` in openai 3.57. Dated November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .blocks import Path, Tier, Walk
from .collect import Collector, as_object, encode, encoded, items

__all__ = ["CHAT_PARTS", "MARK", "RESPONSES_PARTS", "TOOL_OUTPUTS", "walk_chat", "walk_responses"]

MARK = "prompt_cache_breakpoint"
CHAT_PARTS: Mapping[str, frozenset[str]] = {
    "system": frozenset({"text"}),
    "developer": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "tool": frozenset({"text"}),
}
"""By role, the parts that a mark can stand on."""
_INPUTS = frozenset({"input_text", "input_image", "input_file"})
TOOL_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
RESPONSES_PARTS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("system", "developer", "user"), _INPUTS),
    **dict.fromkeys(TOOL_OUTPUTS, _INPUTS),
}
_LEADING = ("system", "developer")
_TEXTS = ("text", "input_text")
_NEVER_SHOWN = ("id", "status")  # of a message: names that the API gave it


def walk_chat(
    payload: Mapping[str, Any],
    model: str,
    headers: Iterable[tuple[str, str]],
    before: Sequence[Walk],
) -> Walk | None:
    """`None` without a list of messages."""
    messages = payload.get("messages")
    if not isinstance(messages, list | tuple):
        return None
    reader = _Reader(payload, before, CHAT_PARTS, "text")
    reader.tools("tools")
    reader.tools("functions")
    reader.turns("messages", messages)
    return reader.walk("openai.chat", model)


def walk_responses(
    payload: Mapping[str, Any],
    model: str,
    headers: Iterable[tuple[str, str]],
    before: Sequence[Walk],
) -> Walk | None:
    """`None` where the input is neither a text nor a list; none at all is an empty one."""
    given = payload.get("input")
    if given is not None and not isinstance(given, str | list | tuple):
        return None
    reader = _Reader(payload, before, RESPONSES_PARTS, "input_text")
    reader.tools("tools")
    reader.instructions(payload.get("instructions"))
    if isinstance(given, str):
        reader.one_text(given)
    reader.turns("input", items(given))
    return reader.walk("openai.responses", model)


class _Reader:
    __slots__ = ("_default_ttl", "_is_leading", "_kind", "_parts", "_payload", "blocks")

    def __init__(
        self,
        payload: Mapping[str, Any],
        before: Sequence[Walk],
        parts: Mapping[str, frozenset[str]],
        kind: str,
    ) -> None:
        options = as_object(payload.get("prompt_cache_options")) or {}
        ttl = options.get("ttl")
        self._payload, self._parts, self._kind = payload, parts, kind
        self._default_ttl = ttl if isinstance(ttl, str) else "30m"
        self._is_leading = True
        # With another lifetime, the same marks do not mean the same.
        self.blocks = Collector([one for one in before if one.default_ttl == self._default_ttl])

    def tools(self, name: str) -> None:
        tools = self._payload.get(name)
        if not self.blocks.take_over((tools,)):
            for number, tool in enumerate(items(tools)):
                self.blocks.add((name, number), "tools", encode(tool), False)
            self._close(tools)

    def instructions(self, given: Any) -> None:
        """They stand before the input, and cannot be marked."""
        if not self.blocks.take_over((given,)):
            if given:
                shown = {"role": "developer", "type": "input_text", "text": given}
                self.blocks.add(("instructions",), "system", encode(shown), False)
            self._close(given)

    def one_text(self, text: str) -> None:
        """An input that is a text alone."""
        if not self.blocks.take_over((text,)):
            self._text(text, ("input",), {"role": "user"}, "user")
            self._close(text)

    def turns(self, name: str, turns: Sequence[Any]) -> None:
        """The messages of Chat, or the items of Responses."""
        read = self._chat if name == "messages" else self._item
        number = 0
        while number < len(turns):
            taken = self.blocks.take_over(turns, number)
            number += taken
            if taken:
                (self._is_leading,) = self.blocks.units[-1].facts
            else:
                read(turns[number], (name, number))
                self._close(turns[number])
                number += 1

    def _close(self, value: Any) -> None:
        self.blocks.close(self.blocks.source(value), self._is_leading)

    def _chat(self, message: Any, path: Path) -> None:
        fields = as_object(message)
        if fields is None:
            self._whole(message, path)
        else:
            self._message(fields, path)

    def _message(self, fields: Mapping[str, Any], path: Path) -> None:
        """What it is said in, its content, the calls of tools."""
        given = fields.get("role")
        role = given if isinstance(given, str) else "?"
        self._is_leading = self._is_leading and role in _LEADING
        apart = ("role", "content", "tool_calls")
        told = {n: v for n, v in fields.items() if n not in apart and v is not None}
        head = {"role": role, **told}
        rest = self._content(fields.get("content"), (*path, "content"), head, role)
        calls = fields.get("tool_calls")
        for number, call in enumerate(items(calls)):
            plain = as_object(call)
            shown = {"call": call} if plain is None else plain
            place = (*path, "tool_calls", number)
            self.blocks.add(place, self._tier, encode({**rest, **shown}), False)
            rest = {"role": role}
        if len(rest) > 1 or (not calls and fields.get("content") in (None, [], ())):
            self.blocks.add(path, self._tier, encode(rest), False)

    def _item(self, item: Any, path: Path) -> None:
        """A message, the output of a tool, or anything else."""
        fields = as_object(item)
        kind = fields.get("type") if fields is not None else None
        if fields is not None and "role" in fields:
            told = {n: v for n, v in fields.items() if n not in _NEVER_SHOWN}
            if kind == "message":
                del told["type"]  # which it is without it, too
            self._message(told, path)
        elif fields is not None and isinstance(kind, str) and kind in TOOL_OUTPUTS:
            self._is_leading = False
            hidden = (*_NEVER_SHOWN, "type", "output")
            head = {"role": kind, **{n: v for n, v in fields.items() if n not in hidden}}
            rest = self._content(fields.get("output"), (*path, "output"), head, kind)
            if len(rest) > 1:
                self.blocks.add(path, self._tier, encode(rest), False)
        else:
            self._whole(item, path)

    def _text(self, text: str, path: Path, head: Mapping[str, Any], role: str) -> None:
        """A text in the place of parts: short for one part."""
        self._is_leading = self._is_leading and role in _LEADING
        kind = "output_text" if self._kind != "text" and role == "assistant" else self._kind
        data = encode({**head, "type": kind, "text": text})
        is_markable = bool(text) and kind in self._parts.get(role, ())
        self.blocks.add(path, self._tier, data, is_markable)

    def walk(self, endpoint: str, model: str) -> Walk:
        payload, blocks = self._payload, self.blocks
        options = as_object(payload.get("prompt_cache_options")) or {}
        return Walk(
            endpoint=endpoint,
            model=model,
            blocks=tuple(blocks.blocks),
            params={"tools": _params(payload, model), "system": {}, "messages": {}},
            own_marks=blocks.own_marks,
            # The provider's own mark at the end takes one of the four that are written.
            max_marks=4 if options.get("mode") == "explicit" else 3,
            default_ttl=self._default_ttl,
            units=tuple(blocks.units),
        )

    @property
    def _tier(self) -> Tier:
        return "system" if self._is_leading else "messages"

    def _content(self, content: Any, path: Path, head: dict[str, Any], role: str) -> dict[str, Any]:
        """Add a text or parts; the first one tells all of `head`, the others the role.

        Returns:
            What is still to be told: all of it where there was no content.
        """
        if isinstance(content, str):
            self._text(content, path, head, role)
            return {"role": role}
        for number, part in enumerate(items(content)):
            self._part(part, (*path, number), head, role)
            head = {"role": role}
        return head

    def _part(self, part: Any, path: Path, head: dict[str, Any], role: str) -> None:
        fields = as_object(part)
        if fields is None:
            self.blocks.add(path, self._tier, encode([head, part]), False)
            return
        plain = {**head, **fields}
        mark = plain.pop(MARK, None)
        kind = fields.get("type")
        is_markable = isinstance(kind, str) and kind in self._parts.get(role, ())
        if kind in _TEXTS and not fields.get("text"):
            is_markable = False
        ttl = None if mark is None else self._ttl(mark)
        self.blocks.add(path, self._tier, encode(plain), is_markable, ttl)

    def _whole(self, item: Any, path: Path) -> None:
        self._is_leading = False
        self.blocks.add(path, self._tier, encode(item), False)

    def _ttl(self, mark: Any) -> str:
        """A mark's time to live; `?` where the mark itself is none that is known."""
        fields = as_object(mark)
        if fields is None or fields.get("mode") != "explicit":
            return "?"
        ttl = fields.get("ttl")
        return self._default_ttl if ttl is None else ttl if isinstance(ttl, str) else "?"


def _params(payload: Mapping[str, Any], model: str) -> dict[str, bytes]:
    """What breaks the whole prefix, by the names that the provider's diagnosis gives it."""
    text = as_object(payload.get("text")) or {}
    reasoning = as_object(payload.get("reasoning")) or {}
    wanted, effort, verbosity = text.get("format"), reasoning.get("effort"), text.get("verbosity")
    return encoded(
        {
            "model": model,
            "service_tier": payload.get("service_tier"),
            "text_format": payload.get("response_format") if wanted is None else wanted,
            "reasoning_effort": payload.get("reasoning_effort") if effort is None else effort,
            "verbosity": payload.get("verbosity") if verbosity is None else verbosity,
            "parallel_tool_calls": payload.get("parallel_tool_calls"),
            "prompt_cache_key": payload.get("prompt_cache_key"),
            "context_management": payload.get("context_management"),
            "previous_response_id": payload.get("previous_response_id"),
            "conversation": payload.get("conversation"),
            "prompt": payload.get("prompt"),
        }
    )
