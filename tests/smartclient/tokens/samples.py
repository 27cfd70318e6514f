"""Requests whose counts were published, and others like them."""

from __future__ import annotations

from typing import Any

__all__ = ["JARGON", "WEATHER", "WEATHER_TOOL", "a_tally", "fields", "of_tally"]

from smartclient.tokens.counting import count
from smartclient.tokens.encodings import bare_name, tokenizing
from smartclient.tokens.tally import Tally

# openai/openai-cookbook, "How to count tokens with tiktoken", sections 6 and 7.
JARGON: list[dict[str, Any]] = [
    {
        "role": "system",
        "content": "You are a helpful, pattern-following assistant that translates corporate "
        "jargon into plain English.",
    },
    {
        "role": "system",
        "name": "example_user",
        "content": "New synergies will help drive top-line growth.",
    },
    {
        "role": "system",
        "name": "example_assistant",
        "content": "Things working well together will increase revenue.",
    },
    {
        "role": "system",
        "name": "example_user",
        "content": "Let's circle back when we have more bandwidth to touch base on opportunities "
        "for increased leverage.",
    },
    {
        "role": "system",
        "name": "example_assistant",
        "content": "Let's talk later when we're less busy about how to do better.",
    },
    {
        "role": "user",
        "content": "This late pivot means we don't have time to boil the ocean for the client "
        "deliverable.",
    },
]
WEATHER_TOOL: dict[str, Any] = {
    "name": "get_current_weather",
    "description": "Get the current weather in a given location",
    "parameters": {
        "type": "object",
        "properties": {
            "location": {
                "type": "string",
                "description": "The city and state, e.g. San Francisco, CA",
            },
            "unit": {
                "type": "string",
                "description": "The unit of temperature to return",
                "enum": ["celsius", "fahrenheit"],
            },
        },
        "required": ["location"],
    },
}
WEATHER: list[dict[str, Any]] = [
    {
        "role": "system",
        "content": "You are a helpful assistant that can answer to questions about the weather.",
    },
    {"role": "user", "content": "What's the weather like in San Francisco?"},
]


def a_tally(model: str = "gpt-4o") -> Tally:
    return Tally(bare_name(model), tokenizing(model))


def of_tally(tally: Tally) -> list[str]:
    """Every text that a tally holds."""
    return [text for texts in tally.texts.values() for text in texts]


def fields(payload: Any, model: str = "gpt-4o", **given: Any) -> tuple[int, int, int]:
    counted = count(payload, model=model, **given)
    return counted.p05, counted.p50, counted.p95
