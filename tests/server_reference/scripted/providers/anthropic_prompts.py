"""Prompts that Anthropic's cache can hold, and what a reading says of them.

`PROMPT` is beyond every model's minimum.
"""

from __future__ import annotations

from typing import Any

from server_reference.scripted.providers.prompt_cache import Reading
from tests.server_reference.scripted.providers.requests import marked, text

__all__ = ["PROMPT", "SYSTEM", "assistant", "tokens"]

PROMPT = text(1000)
SYSTEM = [marked(PROMPT)]


def tokens(reading: Reading) -> tuple[int, dict[str, int], int]:
    """What was read, written by time to live, and neither."""
    return reading.cache_read, reading.cache_write, reading.uncached


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    """A message of the assistant."""
    return {"role": "assistant", "content": list(blocks)}
