"""Which part of a request costs which share of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..tokens import TokenCount
from ..tokens.counting import Endpoint

__all__ = ["PARTS", "Count", "is_system", "parts_of"]

PARTS = ("tools", "system", "schema", "messages")
"""In the order in which a provider reads them; the answer's schema stands where it may."""

_TOOLS = ("tools", "functions", "tool_choice")
_SCHEMAS = ("response_format", "output_config", "output_format", "text")
_SYSTEM_ROLES = ("system", "developer")

Count = Callable[[Any], TokenCount]


def parts_of(body: Any, endpoint: Endpoint, count: Count) -> dict[str, int]:
    """Tokens of each part that is there; they add up to the whole's `p50`.

    A part is what the whole has more than it would have without: so what tools bring with
    them counts as theirs.
    """
    whole = count(body).p50
    if not isinstance(body, Mapping) or endpoint == "text":
        return {"messages": whole} if whole else {}
    found, left, rest = {}, whole, dict(body)
    for name, without in (("tools", _without_tools), ("schema", _without_schema),
                          ("system", _without_system)):  # fmt: skip
        shorter = without(rest)
        if shorter != rest:
            tokens = count(shorter).p50
            found[name], left, rest = max(0, left - tokens), min(left, tokens), shorter
    found["messages"] = left
    return {name: found[name] for name in PARTS if found.get(name)}


def _without_tools(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _TOOLS}


def _without_schema(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _SCHEMAS}


def _without_system(body: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in body.items() if name not in ("system", "instructions")}
    for name in ("messages", "input"):
        if isinstance(rest.get(name), list):
            rest[name] = [one for one in rest[name] if not is_system(one)]
    return rest


def is_system(message: Any) -> bool:
    """Whether it is a part of the system prompt that stands among the messages."""
    return isinstance(message, Mapping) and message.get("role") in _SYSTEM_ROLES
