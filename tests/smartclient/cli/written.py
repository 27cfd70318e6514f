"""Requests as the files of the tests hold them."""

from __future__ import annotations

from typing import Any

__all__ = ["ASKED", "a_chat", "a_claude", "a_response"]

ASKED = [{"role": "user", "content": "Why is the sky blue?"}]
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def a_claude(**fields: Any) -> dict[str, Any]:
    """A Messages request, with `fields` in their place."""
    usual = {"model": "claude-opus-5-5", "max_tokens": 100, "messages": ASKED}
    return usual | fields


def a_chat(**fields: Any) -> dict[str, Any]:
    return {"model": "gpt-5.1", "messages": ASKED} | fields


def a_response(**fields: Any) -> dict[str, Any]:
    return {"model": "gpt-5.1", "input": "Why is the sky blue?"} | fields


TOOLS = [{"name": "weather", "description": "Of a city, today.", "input_schema": _SCHEMA}]
FUNCTIONS = [
    {
        "type": "function",
        "function": {"name": "weather", "description": "Of a city.", "parameters": _SCHEMA},
    }
]
