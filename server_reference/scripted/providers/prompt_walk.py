"""A prompt as a prompt cache sees it: blocks in order, each the end of a possible prefix.

The key of a prefix is a hash over every block up to its end, and over what else the model is
shown (tools, settings). Marks are no part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .cache_rules import IMAGE_TOKENS, CacheRules

__all__ = ["Block", "Mark", "Prompt", "PromptWalk", "canonical", "digest", "is_image", "objects"]


class Mark(NamedTuple):
    """Where a cacheable prefix ends.

    Attributes:
        block: Number of the last block inside, from 0.
        ttl: In the provider's words, such as `5m`.
    """

    block: int
    ttl: str


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a prompt.

    Attributes:
        key: Of the prefix that ends with it.
        end: Tokens of that prefix.
        digest: Of the block alone.
        text: As it is counted.
        run: Blocks of one run count as one position in a look back; `None` counts alone.
    """

    key: bytes
    end: int
    digest: bytes
    text: str
    run: str | None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request's prompt.

    Attributes:
        marks: In the order of their blocks.
        parts: Digests of what a diagnosis tells apart, such as `tools`.
    """

    blocks: list[Block]
    marks: list[Mark]
    parts: Mapping[str, bytes]

    @property
    def tokens(self) -> int:
        return self.blocks[-1].end if self.blocks else 0

    def end(self, index: int | None) -> int:
        """Tokens up to the end of a block; 0 for `None`."""
        return 0 if index is None else self.blocks[index].end


class PromptWalk:
    """Collects blocks from the first to the last."""

    def __init__(self, rules: CacheRules, *scope: str) -> None:
        self.blocks: list[Block] = []
        self._rules = rules
        self._key = digest("\0".join(scope))
        self._end = 0

    def show(self, *settings: Any) -> None:
        """Make every prefix from here on depend on `settings`."""
        self._key = digest(self._key, canonical(settings))

    def add(self, place: str, block: Mapping[str, Any], *, run: str | None = None) -> int:
        """Add a block without its marks, and return its index.

        Args:
            place: What stands around it: its section, its role.
        """
        rendered = canonical(block)
        own = digest(place, rendered)
        self._key = digest(self._key, own)
        self._end += self._tokens(block)
        text = f"{place}\n{'image ' + own.hex() if is_image(block) else _text(block, rendered)}\n"
        self.blocks.append(Block(self._key, self._end, own, text, run))
        return len(self.blocks) - 1

    def _tokens(self, block: Mapping[str, Any]) -> int:
        if is_image(block):
            return IMAGE_TOKENS
        inner = block.get("content")
        if block.get("type") == "tool_result" and isinstance(inner, list):
            return sum(self._tokens(one) for one in objects(inner))
        return self._rules.count(_text(block, None))


def _text(block: Mapping[str, Any], rendered: str | None) -> str:
    text = block.get("text")
    if isinstance(text, str):
        return text
    return canonical(block) if rendered is None else rendered


def canonical(value: Any) -> str:
    """JSON with its keys in the order in which they came: their order is part of a prompt."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def digest(*parts: str | bytes) -> bytes:
    """A hash over the parts, told apart by their lengths."""
    seen = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        seen.update(len(data).to_bytes(8, "big") + data)
    return seen.digest()


def objects(items: Any) -> Iterable[dict[str, Any]]:
    """The JSON objects of a list; nothing of anything else."""
    return [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []


def is_image(block: Mapping[str, Any]) -> bool:
    return block.get("type") in ("image", "image_url", "input_image")
