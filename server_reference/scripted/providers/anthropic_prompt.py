"""Anthropic's rules of cache marks: where they may stand, and which prefixes they look up.

Source: Anthropic, "Prompt caching" and "Tool use with prompt caching"; the refusals are those
that gateways ran into (BerriAI/litellm#30480, headroomlabs-ai/headroom#2939,
decolua/9router#3567).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..request import Received
from .cache_rules import CacheRules
from .prompt_walk import Mark, Prompt, PromptWalk, canonical, digest, is_image, objects
from .refusals import Refusal, invalid

__all__ = ["LOOKBACK", "MAX_MARKS", "TTLS", "is_prewarm", "look_back", "read_anthropic"]

TTLS: Mapping[str, float] = {"5m": 300.0, "1h": 3600.0}
MAX_MARKS = 4
LOOKBACK = 20
"""Positions that a mark looks back over; its own is the first."""

_THINKING = ("thinking", "redacted_thinking")
_RUNS = ("tool_use", "tool_result")


class _Part(NamedTuple):
    """A block where it stands; `path` is for people."""

    section: str
    role: str
    path: str
    block: Mapping[str, Any]


class _BrokenRuleError(Exception):
    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.refusal = invalid("anthropic", message, param=path)


def read_anthropic(received: Received, caller: str, rules: CacheRules) -> Prompt | Refusal:
    """The prompt of a Messages request with its marks, or the 400 that it deserves."""
    body = received.fields
    try:
        _check_prewarm(body)
        parts = list(_parts(body))
        marks = _marks(body, parts)
    except _BrokenRuleError as error:
        return error.refusal
    tiers = _tiers(received, parts)
    walk = PromptWalk(rules, "anthropic", caller, received.model or "")
    for section in ("tools", "system", "messages"):
        walk.show(tiers.get(section))
        for part in parts:
            if part.section == section:
                kind = part.block.get("type")
                run = kind if kind in _RUNS else None
                walk.add(f"{section} {part.role}", _unmarked(part.block), run=run)
    return Prompt(walk.blocks, marks, _compared(received, parts, tiers))


def look_back(prompt: Prompt, mark: Mark) -> Iterator[int]:
    """Blocks whose prefixes a mark looks up, the longest first.

    A run of `tool_use` counts as one position, and so does a run of `tool_result`.
    """
    position, before = 0, None
    for index in range(mark.block, -1, -1):
        run = prompt.blocks[index].run
        position += run is None or run != before
        if position > LOOKBACK:
            return
        yield index
        before = run


def _parts(body: Mapping[str, Any]) -> Iterator[_Part]:
    # A deferred tool comes into the conversation where it is found, not into the prefix.
    tools = [
        (f"tools.{i}", one)
        for i, one in enumerate(objects(body.get("tools")))
        if not _is_deferred(one)
    ]
    # Web search is a part of the system prompt to the cache: toggling it keeps the tools.
    for path, tool in tools:
        if not _is_web_search(tool):
            yield _Part("tools", "", path, tool)
    for path, tool in tools:
        if _is_web_search(tool):
            yield _Part("system", "", path, tool)
    for i, block in enumerate(_lifted(body.get("system"))):
        yield _Part("system", "", f"system.{i}", block)
    for i, message in enumerate(objects(body.get("messages"))):
        for j, block in enumerate(_lifted(message.get("content"))):
            path = f"messages.{i}.content.{j}"
            yield _Part("messages", str(message.get("role")), path, block)


def _lifted(content: Any) -> list[dict[str, Any]]:
    """Content as blocks: a string is short for one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(objects(content))


def _is_deferred(tool: Mapping[str, Any]) -> bool:
    return tool.get("defer_loading") is True


def _is_web_search(tool: Mapping[str, Any]) -> bool:
    return str(tool.get("type", "")).startswith("web_search")


def _unmarked(block: Mapping[str, Any]) -> dict[str, Any]:
    """The block without its mark, and without those of blocks inside a tool's result."""
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    inner = plain.get("content")
    if plain.get("type") == "tool_result" and isinstance(inner, list):
        plain["content"] = [_unmarked(one) if isinstance(one, dict) else one for one in inner]
    return plain


def _tiers(received: Received, parts: list[_Part]) -> dict[str, Any]:
    """What changes every prefix from the beginning of a section on."""
    body = received.fields
    betas = [value for name, value in received.headers if name == "anthropic-beta"]
    names = ("tool_choice", "thinking", "output_config", "output_format", "context_management")
    return {
        "system": [body.get("speed"), any(_has_citations(part.block) for part in parts)],
        "messages": {
            **{name: body.get(name) for name in names},
            "images": any(_has_image(part.block) for part in parts),
            "betas": sorted({one.strip() for value in betas for one in value.split(",")}),
        },
    }


def _compared(received: Received, parts: list[_Part], tiers: Mapping[str, Any]) -> dict[str, bytes]:
    """What a diagnosis tells apart besides the messages."""
    body = received.fields
    tools = [_unmarked(one) for one in objects(body.get("tools")) if not _is_deferred(one)]
    system = [_unmarked(one) for one in _lifted(body.get("system"))]
    return {
        "model": digest(canonical([received.model, body.get("speed")])),
        "tools": digest(canonical(tools)),
        "system": digest(canonical(system)),
        "other": digest(canonical(tiers)),
    }


def _has_citations(block: Mapping[str, Any]) -> bool:
    citations = block.get("citations")
    return isinstance(citations, dict) and citations.get("enabled") is True


def _has_image(block: Mapping[str, Any]) -> bool:
    inner = block.get("content")
    is_result = block.get("type") == "tool_result"
    return is_image(block) or (is_result and any(is_image(one) for one in objects(inner)))


def _marks(body: Mapping[str, Any], parts: list[_Part]) -> list[Mark]:
    marks = [
        Mark(index, _ttl(f"{part.path}.cache_control", part.block["cache_control"]))
        for index, part in enumerate(parts)
        if part.block.get("cache_control") is not None and _check_place(part)
    ]
    if len(marks) > MAX_MARKS:
        raise _BrokenRuleError(
            "cache_control", f"at most {MAX_MARKS} blocks may be marked, not {len(marks)}"
        )
    _check_deferred(body)
    marks += _automatic(body, parts, marks)
    short = False
    for mark in marks:
        if mark.ttl == "1h" and short:
            raise _BrokenRuleError(
                f"{parts[mark.block].path}.cache_control.ttl",
                "a mark of 1h must stand before every mark of 5m, "
                "in the order tools, system, messages",
            )
        short = short or mark.ttl == "5m"
    return marks


def _automatic(body: Mapping[str, Any], parts: list[_Part], marks: list[Mark]) -> list[Mark]:
    """The mark of a top-level `cache_control`, on the last block that can carry one."""
    control = body.get("cache_control")
    if control is None:
        return []
    ttl = _ttl("cache_control", control)
    last = next((i for i in range(len(parts) - 1, -1, -1) if _can_be_marked(parts[i].block)), None)
    if last is None:
        return []
    if marks and marks[-1].block == last:
        if marks[-1].ttl == ttl:
            return []
        raise _BrokenRuleError(
            "cache_control",
            f"the last block is marked with ttl {marks[-1].ttl}, the request with {ttl}: "
            "use the same, or only one of the two",
        )
    if len(marks) == MAX_MARKS:
        raise _BrokenRuleError(
            "cache_control",
            f"{MAX_MARKS} blocks are marked, which leaves no mark for the whole request",
        )
    return [Mark(last, ttl)]


def _can_be_marked(block: Mapping[str, Any]) -> bool:
    is_empty = block.get("type") == "text" and not block.get("text")
    return block.get("type") not in _THINKING and not is_empty


def _check_deferred(body: Mapping[str, Any]) -> None:
    for i, tool in enumerate(objects(body.get("tools"))):
        if _is_deferred(tool) and tool.get("cache_control") is not None:
            raise _BrokenRuleError(
                f"tools.{i}.cache_control",
                "a tool cannot have both defer_loading and cache_control: it is no part of the "
                "cached prefix",
            )


def _check_place(part: _Part) -> bool:
    if _can_be_marked(part.block):
        return True
    what = "thinking" if part.block.get("type") in _THINKING else "empty text"
    raise _BrokenRuleError(f"{part.path}.cache_control", f"a block of {what} cannot be marked")


def _ttl(path: str, control: Any) -> str:
    if not isinstance(control, dict) or control.get("type") != "ephemeral":
        raise _BrokenRuleError(path, 'must be an object of type "ephemeral"')
    ttl = control.get("ttl", "5m")
    if not isinstance(ttl, str) or ttl not in TTLS:
        raise _BrokenRuleError(f"{path}.ttl", 'must be "5m" or "1h"')
    return ttl


def is_prewarm(body: Mapping[str, Any]) -> bool:
    """Whether a request fills the cache and generates nothing."""
    limit = body.get("max_tokens")
    return limit == 0 and not isinstance(limit, bool)


def _check_prewarm(body: Mapping[str, Any]) -> None:
    """Nothing is generated, so nothing may be asked of it."""
    if not is_prewarm(body):
        return
    thinking, output, choice = (
        value if isinstance(value, dict) else {}
        for value in map(body.get, ("thinking", "output_config", "tool_choice"))
    )
    wrong = {
        "stream": body.get("stream") is True,
        "thinking": thinking.get("type") == "enabled",
        "output_config.format": output.get("format") is not None,
        "output_format": body.get("output_format") is not None,
        "tool_choice": choice.get("type") in ("tool", "any"),
    }
    for path, is_wrong in wrong.items():
        if is_wrong:
            raise _BrokenRuleError(path, "cannot be used with max_tokens 0: nothing is generated")
