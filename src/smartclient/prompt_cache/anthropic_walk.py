"""The prompt of a Messages request: tools, system, messages.

Source: platform.claude.com, "Prompt caching" (the order, what can be marked, what a change
breaks) and "Tool search tool" (deferred tools are no part of the prefix); the block types that
have a `cache_control` in anthropic 2.14. Dated November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..wire.encode import encode
from .blocks import Path, Tier, Walk
from .collect import Collector, as_object, encoded, items

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
    before: Walk | None,
) -> Walk | None:
    """`None` without a list of messages."""
    messages = payload.get("messages")
    if not isinstance(messages, list | tuple):
        return None
    reader = _Reader(before)
    reader.tools(payload.get("tools"))
    reader.system(payload.get("system"))
    for number, message in enumerate(messages):
        reader.message(message, number)
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

    def __init__(self, before: Walk | None) -> None:
        self.blocks = Collector(before)
        self._has_citations = self._has_images = False
        self._searches: bytes | None = None
        self.strays: tuple[Path, ...] = ()

    def tools(self, tools: Any) -> None:
        """Every tool that the prompt begins with; web search stands in the system prompt."""
        source = encode(tools)
        unit = self.blocks.take_over(source)
        if unit is not None:
            self._searches, self.strays = unit.facts
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
        self.blocks.close(source, self._searches, self.strays)

    def _tool(self, path: Path, tier: Tier, fields: dict[str, Any]) -> None:
        mark = fields.get("cache_control")
        data = encode(_unmarked(fields) if "cache_control" in fields else fields)
        ttl = None if mark is None else _ttl(mark)
        self.blocks.add(path, tier, data, tier == "tools", ttl)

    def system(self, system: Any) -> None:
        source = encode(system)
        if not self._take_over(source):
            self._content(source, system, ("system",), "system", {})

    def message(self, message: Any, number: int) -> None:
        source = encode(message)
        if self._take_over(source):
            return
        fields = as_object(message)
        if fields is None:
            self.blocks.add(("messages", number), "messages", source, False)
            self.blocks.close(source, False, False)
            return
        path: Path = ("messages", number, "content")
        self._content(source, fields.get("content"), path, "messages", {"role": fields.get("role")})

    def _take_over(self, source: bytes) -> bool:
        unit = self.blocks.take_over(source)
        if unit is None:
            return False
        has_images, has_citations = unit.facts
        self._has_images = self._has_images or has_images
        self._has_citations = self._has_citations or has_citations
        return True

    def _content(
        self, source: bytes, content: Any, path: Path, tier: Tier, head: dict[str, Any]
    ) -> None:
        """A text, or blocks; `head` is the role that they are said in, if any."""
        has_images = has_citations = False
        if isinstance(content, str):
            data = encode({**head, "type": "text", "text": content})
            self.blocks.add(path, tier, data, not _is_blank(content))
        for number, block in enumerate(items(content)):
            fields = as_object(block)
            place = (*path, number)
            if fields is None:
                self.blocks.add(place, tier, encode({**head, "": block}), False)
                continue
            has_images = self._block(fields, place, tier, head) or has_images
            has_citations = has_citations or _has_citations(fields)
        self._has_images = self._has_images or has_images
        self._has_citations = self._has_citations or has_citations
        self.blocks.close(source, has_images, has_citations)

    def _block(self, block: dict[str, Any], path: Path, tier: Tier, head: dict[str, Any]) -> bool:
        """Add a block, and say whether there is an image in it."""
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
        return has_image

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
