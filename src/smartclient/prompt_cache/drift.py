"""Where a prompt first differs from the one before it, in what way, and what that costs."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from ..catalog.facts import ModelFacts
from ..wire import Usage
from .blocks import Path, Tier, Walk
from .savings import STANDARD, Served

__all__ = ["Drift", "DriftKind", "Move", "drift"]

DriftKind: TypeAlias = Literal[
    "parameter",
    "reorder",
    "added",
    "removed",
    "key_order",
    "whitespace",
    "truncation",
    "type_change",
    "edit",
]
"""In what way two prompts differ where they first do; `docs/how-to/find-drift.md`."""


class Move(Struct, frozen=True):
    """A tool, or another element of a list, that stands in another place.

    Attributes:
        name: Of the tool; `None` for what has none.
        before: Its path in the request before, such as `tools[3]`.
        after: Its path now.
    """

    name: str | None
    before: str
    after: str


class Drift(Struct, frozen=True, kw_only=True):
    """The first difference between the prompts of two requests. Unknown is `None`.

    It holds no text of a prompt, unless excerpts were asked for; `str(drift)` is one
    sentence that never does.

    Attributes:
        kind: In what way they differ.
        path: Where, such as `tools[3].input_schema.properties.city`; within a text with the
            offset in characters, such as `system[0].text@6190`.
        steps: The path without the offset, step by step.
        offset: Characters of the text that are the same.
        tier: The part of the prompt: it and those after it are lost to the cache.
        block: Index of the first block of `after` that the cache cannot hold.
        parameter: Name of what changed beside the blocks, such as `tool_choice`.
        parameters: Every such name of that tier.
        pattern: What the changed text looks like, such as `uuid`; see `patterns.py`.
        moved: What changed places, at most ten of them.
        count: Blocks or elements that moved, came or went; 1 otherwise.
        before_len: Length of the changed text before, in characters.
        after_len: Its length now.
        bytes_lost: Bytes of the prompt that could have been read and were not.
        tokens_lost: The same in tokens.
        is_estimate: `tokens_lost` comes from a general ratio, not from this call's usage.
        dollars_lost: What these tokens cost in this call over what reading them costs.
        is_written: They are written to the cache anew, and pay for that.
        advice: What to do, in one clause.
        excerpts: The text around the difference, before and now, where it was asked for.
    """

    kind: DriftKind
    path: str
    steps: Path
    tier: Tier
    block: int
    advice: str
    bytes_lost: int
    offset: int | None = None
    parameter: str | None = None
    parameters: tuple[str, ...] = ()
    pattern: str | None = None
    moved: tuple[Move, ...] = ()
    count: int = 1
    before_len: int | None = None
    after_len: int | None = None
    tokens_lost: int | None = None
    is_estimate: bool = True
    dollars_lost: Decimal | None = None
    is_written: bool = False
    excerpts: tuple[str, str] | None = None


def drift(
    before: Walk,
    after: Walk,
    *,
    usage: Usage | None = None,
    tokens_per_byte: float = 0.25,
    ttl: str | None = None,
    facts: ModelFacts | None = None,
    served: Served = STANDARD,
    excerpts: bool = False,
) -> Drift | None:
    """The first difference between the prompts of two requests, marks left out.

    `None` where `after` only continues `before`, is where `before` began, or is the same:
    without a byte that differs there is no drift.

    Args:
        before: The request that the cache should hold.
        after: The request that should have read it.
        usage: Tokens of the reply to `after`: tokens are then counted in its measure, and
            dollars by how it was billed.
        tokens_per_byte: The measure where `usage` is not known.
        ttl: Where `usage` is not known, the time to live with which `after` writes to the
            cache; `None` takes the caller's own mark, if there is one.
        facts: The model's, for dollars.
        served: How `after` was served.
        excerpts: Keep up to 40 characters of each side: text of a prompt.
    """
    raise NotImplementedError
