"""The prompt of a Messages request: tools, system, messages.

Source: platform.claude.com, "Prompt caching" (the order, what can be marked, what a change
breaks) and "Tool search tool" (deferred tools are no part of the prefix); the block types that
have a `cache_control` in anthropic 2.14. Dated November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .blocks import Path, Tier, Walk
from .collect import Collector, as_object, encode, encoded, items

__all__ = ["walk_messages"]

_MARKABLE = frozenset(
    "text image document search_result tool_use tool_result server_tool_use mcp_tool_use "
    "mcp_tool_result web_search_tool_result web_fetch_tool_result code_execution_tool_result "
    "bash_code_execution_tool_result text_editor_code_execution_tool_result "
    "tool_search_tool_result container_upload".split()
)
_RUNS = ("tool_use", "tool_result")
_MESSAGES_PARAMS = (
    "tool_choice",
    "thinking",
    "output_config",
    "output_format",
    "context_management",
)


def walk_messages(
    payload: Mapping[str, Any],
    model: str,
    headers: Iterable[tuple[str, str]],
    before: Sequence[Walk],
) -> Walk | None:
    """`None` without a list of messages."""
    messages = payload.get("messages")
    if not isinstance(messages, list | tuple):
        return None
    reader = _Reader(before)
    reader.tools(payload.get("tools"))
    reader.system(payload.get("system"))
    reader.messages(messages)
    whole = payload.get("cache_control")
    blocks = reader.blocks
    return Walk(
        endpoint="anthropic.messages",
        model=model,
        blocks=tuple(blocks.blocks),
        params=reader.params(payload, model, headers),
        own_marks=blocks.own_marks + (whole is not None) + len(reader.strays),
        whole_mark=None if whole is None else _ttl(whole),
        units=tuple(blocks.units),
        stray_marks=reader.strays,
    )


class _Reader:
    """Reads one payload, and what of it is to be known as a whole."""

    __slots__ = ("_has_citations", "_has_images", "_searches", "blocks", "strays")

    def __init__(self, before: Sequence[Walk]) -> None:
        self.blocks = Collector(before)
        self._has_citations = self._has_images = False
        self._searches: bytes | None = None
        self.strays: tuple[Path, ...] = ()

    def tools(self, tools: Any) -> None:
        """Every tool that the prompt begins with; web search stands in the system prompt."""
        if self.blocks.take_over((tools,)):
            self._searches, self.strays = self.blocks.units[-1].facts
            return
        later: list[tuple[Path, dict[str, Any]]] = []
        for number, tool in enumerate(items(tools)):
            fields = as_object(tool)
            path: Path = ("tools", number)
            if fields is None:
                self.blocks.add(path, "tools", encode(tool), False)
            elif fields.get("defer_loading") is True:
                # It comes into the conversation where it is found.
                if fields.get("cache_control") is not None:
                    self.strays += (path,)
            elif str(fields.get("type")).startswith("web_search"):
                later.append((path, fields))
            else:
                self._tool(path, "tools", fields)
        if later:
            self._searches = encode([_unmarked(fields) for _, fields in later])
        for path, fields in later:
            self._tool(path, "system", fields)
        self.blocks.close(self.blocks.source(tools), self._searches, self.strays)

    def _tool(self, path: Path, tier: Tier, fields: dict[str, Any]) -> None:
        mark = fields.get("cache_control")
        data = encode(_unmarked(fields) if "cache_control" in fields else fields)
        ttl = None if mark is None else _ttl(mark)
        self.blocks.add(path, tier, data, tier == "tools", ttl)

    def system(self, system: Any) -> None:
        if not self._take_over((system,)):
            self._content(system, ("system",), "system", {})
            self._close(self.blocks.source(system))

    def messages(self, messages: Sequence[Any]) -> None:
        number = 0
        while number < len(messages):
            taken = self._take_over(messages, number)
            number += taken
            if not taken:
                self._message(messages[number], number)
                number += 1

    def _message(self, message: Any, number: int) -> None:
        fields, source = as_object(message), self.blocks.source(message)
        if fields is None:
            self.blocks.add(("messages", number), "messages", source, False)
        else:
            path: Path = ("messages", number, "content")
            self._content(fields.get("content"), path, "messages", {"role": fields.get("role")})
        self._close(source)

    def _take_over(self, values: Sequence[Any], start: int = 0) -> int:
        taken = self.blocks.take_over(values, start)
        if taken:
            self._has_images, self._has_citations = self.blocks.units[-1].facts
        return taken

    def _close(self, source: bytes) -> None:
        self.blocks.close(source, self._has_images, self._has_citations)

    def _content(self, content: Any, path: Path, tier: Tier, head: dict[str, Any]) -> None:
        """A text, or blocks; `head` is the role that they are said in, if any."""
        if isinstance(content, str):
            data = encode({**head, "type": "text", "text": content})
            self.blocks.add(path, tier, data, not _is_blank(content))
        for number, block in enumerate(items(content)):
            fields = as_object(block)
            place = (*path, number)
            if fields is None:
                self.blocks.add(place, tier, encode({**head, "": block}), False)
                continue
            self._block(fields, place, tier, head)

    def _block(self, block: dict[str, Any], path: Path, tier: Tier, head: dict[str, Any]) -> None:
        kind = block.get("type")
        kind = kind if isinstance(kind, str) else ""
        plain = {**head, **block}
        mark = plain.pop("cache_control", None)
        has_image = kind == "image"
        inner: tuple[str, ...] = ()
        if kind == "tool_result" and isinstance(block.get("content"), list | tuple):
            plain["content"], inner, has_image = _nested(block["content"])
        is_markable = kind in _MARKABLE and (kind != "text" or not _is_blank(block.get("text")))
        ttl = None if mark is None else _ttl(mark)
        run = kind if kind in _RUNS else ""
        self.blocks.add(path, tier, encode(plain), is_markable, ttl, inner, run)
        self._has_images = self._has_images or has_image
        self._has_citations = self._has_citations or _has_citations(block)

    def params(
        self, payload: Mapping[str, Any], model: str, headers: Iterable[tuple[str, str]]
    ) -> dict[Tier, Mapping[str, bytes]]:
        """What breaks the prefix beside the blocks, by the tier from which on it does."""
        betas = [value for name, value in headers if name.lower() == "anthropic-beta"]
        betas = sorted({one.strip() for value in betas for one in value.split(",") if one.strip()})
        system = encoded({"speed": payload.get("speed"), "citations": self._has_citations or None})
        if self._searches is not None:
            system["web_search"] = self._searches
        rest = {name: payload.get(name) for name in _MESSAGES_PARAMS}
        rest |= {"images": self._has_images or None, "anthropic-beta": betas or None}
        return {
            "tools": encoded({"model": model, "mcp_servers": payload.get("mcp_servers")}),
            "system": system,
            "messages": encoded(rest),
        }


def _nested(blocks: Iterable[Any]) -> tuple[list[Any], tuple[str, ...], bool]:
    """What a tool's result holds without its marks, the marks, and whether it is an image."""
    plain, marks, has_image = [], [], False
    for block in blocks:
        fields = as_object(block)
        if fields is None:
            plain.append(block)
            continue
        has_image = has_image or fields.get("type") == "image"
        mark = fields.get("cache_control")
        if mark is not None:
            marks.append(_ttl(mark))
        plain.append(_unmarked(fields))
    return plain, tuple(marks), has_image


def _has_citations(block: Mapping[str, Any]) -> bool:
    citations = block.get("citations")
    return isinstance(citations, dict) and citations.get("enabled") is True


def _unmarked(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "cache_control"}


def _is_blank(text: Any) -> bool:
    """A block of such text is refused, marked or not."""
    return not isinstance(text, str) or not text or text.isspace()


def _ttl(control: Any) -> str:
    """A mark's time to live; `?` where the mark itself is none that is known."""
    fields = as_object(control)
    if fields is None or fields.get("type") != "ephemeral":
        return "?"
    ttl = fields.get("ttl")
    return "5m" if ttl is None else ttl if isinstance(ttl, str) else "?"
