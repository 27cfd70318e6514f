"""What the providers' own counting endpoints are asked, and what their answer is worth.

`client.messages.count_tokens` and `client.responses.input_tokens.count` do the asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .values import TokenCount

__all__ = ["countable", "exact"]

_FIELDS = {
    "anthropic.messages": "model messages system thinking tool_choice tools cache_control "
    "context_management output_config",
    "openai.responses": "model input instructions conversation previous_response_id tools "
    "tool_choice parallel_tool_calls reasoning text truncation personality",
}


def countable(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that its provider's counting endpoint takes.

    Raises:
        ValueError: It is no Messages and no Responses request: nothing counts it exactly.
    """
    for format_, marks in (("openai.responses", ("input",)), ("anthropic.messages", ("messages",))):
        if any(mark in payload for mark in marks):
            names = _FIELDS[format_].split()
            return {name: payload[name] for name in names if name in payload}
    held = ", ".join(sorted(map(str, payload))) or "nothing"
    raise ValueError(
        "only a Messages request (with messages) and a Responses request (with input) can be "
        f"counted by their provider; this one holds {held}"
    )


def exact(reply: Any) -> TokenCount:
    """The count that an endpoint answered with.

    Anthropic calls its own an estimate; it may be off by a small amount (platform.claude.com,
    "Token counting").

    Raises:
        ValueError: The answer holds no number.
    """
    found = reply.get("input_tokens") if isinstance(reply, Mapping) else None
    number = found if found is not None else getattr(reply, "input_tokens", None)
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"a counting endpoint answers with input_tokens, not {number!r}")
    return TokenCount(number, number, number, "exact_endpoint", estimate=number)
