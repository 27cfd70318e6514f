"""What to do about a difference that costs the cache, in one clause."""

from __future__ import annotations

from .blocks import Tier
from .difference import DriftKind
from .patterns import WORDS, Pattern

__all__ = ["advice"]

_PARAMETERS = {
    "model": "stay on one model: each has a cache of its own",
    "endpoint": "stay on one endpoint: each has a cache of its own",
    "anthropic-beta": "send the same beta headers in every call",
    "images": "have images in every call or in none",
}
_TOOLS: dict[DriftKind, str] = {
    "reorder": "keep the order of tools fixed",
    "added": "declare all tools in the first call",
    "removed": "keep declaring a tool once it was, and forbid it with tool_choice",
    "key_order": "freeze the key order of the schema",
}
_SYSTEM: dict[DriftKind, str] = {
    "reorder": "keep the order of the system blocks fixed",
    "added": "append a system message instead of adding to the system prompt",
    "removed": "keep the system prompt whole; say what no longer holds in a later message",
    "edit": "append a system message instead of editing the system prompt",
}
_MESSAGES: dict[DriftKind, str] = {
    "reorder": "only append to the history",
    "added": "only append to the history: put what is new at its end",
    "removed": "cut the history seldom, and much of it at once",
    "truncation": "shorten a text before it is first sent, or not at all",
    "edit": "send earlier messages as they were, and append what is new",
}
_ANY: dict[DriftKind, str] = {
    "key_order": "serialise it with one order of keys",
    "whitespace": "build this text in one way, whitespace included",
    "truncation": "send the same text in every call",
    "type_change": "send it in one shape in every call",
    "edit": "send the same in every call",
}
_TIERS: dict[Tier, dict[DriftKind, str]] = {
    "tools": _TOOLS,
    "system": _SYSTEM,
    "messages": _MESSAGES,
}
_FOR_THE_END = {"iso_datetime": "the date", "datetime": "the date", "unix_timestamp": "the time"}


def advice(
    kind: DriftKind,
    tier: Tier,
    *,
    pattern: Pattern | None = None,
    parameter: str | None = None,
    is_inside: bool = False,
) -> str:
    """What keeps the prefix as it was.

    Args:
        kind: How two prompts differ.
        tier: In which part.
        pattern: What the changed text looks like.
        parameter: The name of what changed, for `parameter`.
        is_inside: A block's content differs, not which blocks there are.
    """
    if kind == "parameter":
        return _PARAMETERS.get(parameter or "", f"send the same {parameter} in every call")
    if pattern is not None and kind == "edit":
        what = _FOR_THE_END.get(pattern) or "the " + WORDS[pattern].split(" ", 1)[1]
        return f"put {what} at the end of the last user message"
    if tier == "tools" and (is_inside or kind == "edit") and kind != "key_order":
        return "define each tool once, and send its definition unchanged"
    if is_inside and kind in ("added", "removed", "reorder"):
        kind = "edit"
    return _TIERS[tier].get(kind) or _ANY.get(kind) or "send the same in every call"
