"""Dated facts about prompt caching, and what a test may set of it.

Source: Anthropic, "Prompt caching" (minimum by model); OpenAI, "Prompt caching" (generations).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

__all__ = [
    "AS_OF",
    "IMAGE_TOKENS",
    "MINIMUM_TOKENS",
    "CacheRules",
    "estimate_tokens",
    "openai_version",
]

AS_OF = "2026-11"
"""When the table of minima was true. Sources contradict each other: see the page of it."""

MINIMUM_TOKENS: Mapping[str, int] = MappingProxyType(
    {
        "claude-opus-5": 512,
        "claude-fable-5": 512,
        "claude-mythos-5": 512,
        "claude-mythos-preview": 2048,
        "claude-sonnet-5-5": 512,
        "claude-haiku-5-5": 512,
        "claude-opus-4-8": 1024,
        "claude-sonnet-5": 1024,
        "claude-sonnet-4-6": 1024,
        "claude-sonnet-4-5": 1024,
        "claude-opus-4-7": 2048,
        "claude-opus-4-6": 4096,
        "claude-opus-4-5": 4096,
        "claude-haiku-4-5": 4096,
    }
)
"""Beginning of a model's name → shortest prefix that is cached; the longest match counts."""

IMAGE_TOKENS = 1568
"""What an image counts, whatever its size."""

_OPENAI_NAME = re.compile(r"^(?:.*/)?(?:ft:)?gpt-(\d+)(?:\.(\d+))?")
_OPENAI_OLD = re.compile(r"^(?:.*/)?(?:ft:)?(?:o\d|chatgpt|codex-mini|gpt-oss)")


def estimate_tokens(text: str) -> int:
    """A token for every four bytes of UTF-8, rounded up: no tokenizer's count, but steady."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def openai_version(model: str) -> tuple[int, int] | None:
    """`(5, 6)` for gpt-5.6 and its variants; `None` for names that tell no version."""
    if _OPENAI_OLD.match(model):
        return (4, 0)
    found = _OPENAI_NAME.match(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """How the prompt cache behaves; the defaults are the providers'.

    Args:
        minimum_tokens: Beginning of an Anthropic model's name → shortest cached prefix.
        default_minimum_tokens: For models that the table does not name, and for OpenAI.
        breakpoints_from: OpenAI version from which on breakpoints are explicit. A name that
            tells no version counts as the newest.
        retention: What OpenAI's older models keep when a request does not say it.
        count: Tokens of a text.
        eviction_rate: Chance, 0 to 1, that what a request would have read is gone.
        seed: Of that chance.
        workspaces: API key → workspace; the keys of one share their entries.
        diagnosis: `pending` answers every comparison with Anthropic's "not yet compared".
        max_entries: Prefixes kept; the ones used longest ago go first.
    """

    minimum_tokens: Mapping[str, int] = field(default_factory=lambda: MINIMUM_TOKENS)
    default_minimum_tokens: int = 1024
    breakpoints_from: tuple[int, int] = (5, 6)
    retention: Literal["in_memory", "24h"] = "24h"
    count: Callable[[str], int] = estimate_tokens
    eviction_rate: float = 0.0
    seed: int = 0
    workspaces: Mapping[str, str] = field(default_factory=dict, repr=False)
    diagnosis: Literal["ready", "pending"] = "ready"
    max_entries: int = 100_000

    def __post_init__(self) -> None:
        if not 0 <= self.eviction_rate <= 1:
            raise ValueError(f"eviction_rate is a chance, 0 to 1, not {self.eviction_rate}")
        if self.max_entries < 1:
            raise ValueError(f"max_entries must be at least 1, not {self.max_entries}")
        for name, tokens in [*self.minimum_tokens.items(), ("", self.default_minimum_tokens)]:
            if tokens < 0:
                what = f"minimum_tokens[{name!r}]" if name else "default_minimum_tokens"
                raise ValueError(f"{what} must be at least 0, not {tokens}")

    def minimum_of(self, model: str) -> int:
        """The shortest prefix that is cached, in tokens."""
        model = model.rpartition("/")[2]
        known = [name for name in self.minimum_tokens if model.startswith(name)]
        return self.minimum_tokens[max(known, key=len)] if known else self.default_minimum_tokens

    def has_breakpoints(self, model: str) -> bool:
        """Whether an OpenAI model caches at breakpoints, not at every 128 tokens."""
        version = openai_version(model)
        return version is None or version >= self.breakpoints_from
