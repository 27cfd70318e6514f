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
_RUNS = {"tool_use": "tool_use", "tool_result": "tool_result"}
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
    reader.content(payload.get("system"), ("system",), "system", "")
    for number, message in enumerate(messages):
        reader.message(message, number)
    whole = payload.get("cache_control")
    blocks = reader.out
    return Walk(
        endpoint="anthropic.messages",
        model=model,
        blocks=tuple(blocks.blocks),
        params=reader.params(payload, model, headers),
        own_marks=blocks.own_marks + (whole is not None) + len(reader.strays),
        whole_mark=None if whole is None else _ttl(whole),
        stray_marks=tuple(reader.strays),
    )


class _Reader:
    """Reads one payload, and what of it is to be known as a whole."""

    __slots__ = ("_searches", "has_citations", "has_images", "out", "strays")

    def __init__(self, before: Walk | None) -> None:
        self.out = Collector(before)
        self.has_citations = self.has_images = False
        self._searches: list[dict[str, Any]] = []
        self.strays: list[Path] = []

    def tools(self, tools: Any) -> None:
        """Every tool that the prompt begins with; web search stands in the system prompt."""
        later: list[tuple[Path, dict[str, Any]]] = []
        for number, tool in enumerate(items(tools)):
            fields = as_object(tool)
            path: Path = ("tools", number)
            if fields is None:
                self.out.add(path, "tools", encode(tool), is_markable=False)
            elif fields.get("defer_loading") is True:
                # It comes into the conversation where it is found.
                if fields.get("cache_control") is not None:
                    self.strays.append(path)
            elif str(fields.get("type")).startswith("web_search"):
                later.append((path, fields))
            else:
                self._tool(path, "tools", fields)
        for path, fields in later:
            self._tool(path, "system", fields)

    def _tool(self, path: Path, tier: Tier, fields: dict[str, Any]) -> None:
        mark = fields.get("cache_control")
        plain = _unmarked(fields) if "cache_control" in fields else fields
        if tier == "system":
            self._searches.append(plain)
        self.out.add(
            path,
            tier,
            encode(plain),
            is_markable=tier == "tools",
            mark=None if mark is None else _ttl(mark),
        )

    def message(self, message: Any, number: int) -> None:
        fields = as_object(message)
        if fields is None:
            self.out.add(("messages", number), "messages", encode(message), is_markable=False)
            return
        role = fields.get("role")
        path: Path = ("messages", number, "content")
        self.content(fields.get("content"), path, "messages", role if type(role) is str else "?")

    def content(self, content: Any, path: Path, tier: Tier, role: str) -> None:
        """A text, or blocks; with the role that they are said in, if any."""
        head = {"role": role} if role else {}
        if isinstance(content, str):
            data = encode({**head, "type": "text", "text": content})
            self.out.add(path, tier, data, is_markable=not _is_blank(content))
            return
        for number, block in enumerate(items(content)):
            fields = as_object(block)
            place = (*path, number)
            if fields is None:
                self.out.add(place, tier, encode([role, block]), is_markable=False)
            else:
                self._block(fields, place, tier, head)

    def _block(self, block: dict[str, Any], path: Path, tier: Tier, head: dict[str, str]) -> None:
        kind = block.get("type")
        plain = {**head, **block}
        mark = plain.pop("cache_control", None)
        inner: tuple[str, ...] = ()
        if kind == "tool_result":
            nested = block.get("content")
            if isinstance(nested, list | tuple):
                plain["content"], inner = self._nested(nested)
        elif kind == "image":
            self.has_images = True
        cites = block.get("citations")
        if cites is not None and type(cites) is dict and cites.get("enabled") is True:
            self.has_citations = True
        kind = kind if isinstance(kind, str) else ""
        is_known = kind in _MARKABLE
        self.out.add(
            path,
            tier,
            encode(plain),
            is_markable=is_known and not (kind == "text" and _is_blank(block.get("text"))),
            mark=None if mark is None else _ttl(mark),
            inner_marks=inner,
            run=_RUNS.get(kind, "") if is_known else "",
        )

    def _nested(self, blocks: Iterable[Any]) -> tuple[list[Any], tuple[str, ...]]:
        """What a tool's result holds, without marks; and the marks."""
        plain, marks = [], []
        for block in blocks:
            fields = as_object(block)
            if fields is not None:
                if fields.get("type") == "image":
                    self.has_images = True
                mark = fields.get("cache_control")
                if mark is not None:
                    marks.append(_ttl(mark))
                fields = _unmarked(fields)
            plain.append(block if fields is None else fields)
        return plain, tuple(marks)

    def params(
        self, payload: Mapping[str, Any], model: str, headers: Iterable[tuple[str, str]]
    ) -> dict[Tier, Mapping[str, bytes]]:
        """What breaks the prefix beside the blocks, by the tier from which on it does."""
        betas = [value for name, value in headers if name.lower() == "anthropic-beta"]
        betas = sorted({one.strip() for value in betas for one in value.split(",") if one.strip()})
        system = {
            "speed": payload.get("speed"),
            "web_search": self._searches or None,
            "citations": self.has_citations or None,
        }
        rest = {name: payload.get(name) for name in _MESSAGES_PARAMS}
        rest |= {"images": self.has_images or None, "anthropic-beta": betas or None}
        return {
            "tools": encoded({"model": model, "mcp_servers": payload.get("mcp_servers")}),
            "system": encoded(system),
            "messages": encoded(rest),
        }


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
