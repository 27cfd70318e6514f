"""Two requests that differ in one thing, as walks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from smartclient.prompt_cache import Drift, Walk, drift
from smartclient.prompt_cache.walk import walk

__all__ = ["DATED", "a_request", "a_tool", "changed", "chat_request", "drifted", "walked"]

DATED = "Answer briefly. " * 400 + "It is 2026-11-29T12:00:01Z now. " + "Be kind. " * 100


def a_tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, **properties}}
    return {"name": name, "description": "Looks it up.", "input_schema": schema}


def a_request(**fields: Any) -> dict[str, Any]:
    """Four tools, a system prompt, three turns of the conversation."""
    messages = [
        {"role": "user", "content": "Where is it warm?"},
        {"role": "assistant", "content": [{"type": "text", "text": "In Lisbon."}]},
        {"role": "user", "content": "And dry?"},
    ]
    tools = [a_tool(name) for name in ("weather", "trains", "hotels", "search")]
    request = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": DATED, "tools": tools}
    return {**request, "messages": messages, **fields}


def chat_request(**fields: Any) -> dict[str, Any]:
    """The same for OpenAI's Chat."""
    one = a_request()
    tools = [
        {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}}
        for tool in one["tools"]
    ]
    messages = [{"role": "developer", "content": DATED}, *one["messages"]]
    return {"model": "gpt-5.6-sol", "tools": tools, "messages": messages, **fields}


def walked(payload: Mapping[str, Any], *, headers: Mapping[str, str] | None = None) -> Walk:
    """By the shape of the payload: `max_tokens` is Anthropic's, `input` is of Responses."""
    endpoint = "openai.responses" if "input" in payload else "openai.chat"
    if "max_tokens" in payload:
        endpoint = "anthropic.messages"
    found = walk(payload, endpoint=endpoint, headers=headers)
    assert found is not None
    return found


def changed(request: Mapping[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A copy with `change` done to it."""
    copied = copy.deepcopy(dict(request))
    change(copied)
    return copied


def drifted(
    change: Callable[[dict[str, Any]], Any],
    request: Mapping[str, Any] | None = None,
    **options: Any,
) -> Drift | None:
    """What `change` does to the ordinary request."""
    before = a_request() if request is None else request
    return drift(walked(before), walked(changed(before, change)), **options)
