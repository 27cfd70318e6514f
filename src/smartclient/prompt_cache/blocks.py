"""A prompt as the provider's cache sees it: blocks in their order, each with what is before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from .._cache_hints import Tier

__all__ = ["Block", "Mark", "Path", "Tier", "Unit", "Walk", "path_text"]

Path: TypeAlias = tuple[str | int, ...]
"""Where a block is in the payload, such as `("messages", 4, "content", 1)`."""


class Block(Struct, frozen=True):
    """One piece of a prompt that a mark can stand behind, or not.

    Attributes:
        path: Where it is in the payload.
        tier: Which part of the prompt it belongs to.
        data: Its JSON as it is sent, without any cache mark; what a message holds begins with
            the message's role, and text alone stands as the block that it is short for.
        prefix: Digest of every block up to and with this one, cache marks left out.
        end: Bytes of all blocks up to and with this one.
        position: Counted from 0 as the provider's lookback counts: a run of tool calls, or
            of their results, is one.
        is_markable: A mark may stand here.
        mark: Time to live of the caller's own mark here, such as `5m`; `None` for none.
        inner_marks: Those of marks inside it, on which a provider keeps nothing, but which it
            may count.
    """

    path: Path
    tier: Tier
    data: bytes
    prefix: bytes
    end: int
    position: int
    is_markable: bool = True
    mark: str | None = None
    inner_marks: tuple[str, ...] = ()


class Unit(Struct, frozen=True):
    """A part of a payload that is read as a whole: all tools, the system prompt, one message.

    Attributes:
        source: Its JSON as it was given, marks and all: where a later request has the same
            after the same, its blocks are taken over without looking into it.
        end: How many blocks there are up to and with its own.
        own_marks: Marks on its blocks, and inside them.
        run: As `Collector.add` takes it, of its last block.
        facts: What its reader has to know once it is read, without reading it.
        held: Bytes that all units up to and with it keep in memory: as given, and as blocks.
    """

    source: bytes
    end: int
    own_marks: int
    run: str
    facts: tuple[Any, ...]
    held: int


class Walk(Struct, frozen=True, kw_only=True):
    """One request's prompt.

    Attributes:
        endpoint: The adapter's name, such as `anthropic.messages`.
        model: As the payload names it.
        blocks: In the order in which the provider reads them.
        params: By tier, what beside the blocks breaks the prefix from that tier on where it
            changes, as JSON: such as `tool_choice` for `messages`.
        own_marks: Marks that the caller set, the whole request's included.
        whole_mark: Time to live of the caller's mark on the whole request; `None` for none.
        max_marks: How many marks the request may carry, the caller's included.
        default_ttl: Of a mark that names none.
        units: What the blocks were read from.
        stray_marks: Where the caller set a mark on what is no block of the prompt.
    """

    endpoint: str
    model: str
    blocks: tuple[Block, ...]
    params: Mapping[Tier, Mapping[str, bytes]]
    own_marks: int = 0
    whole_mark: str | None = None
    max_marks: int = 4
    default_ttl: str = "5m"
    units: tuple[Unit, ...] = ()
    stray_marks: tuple[Path, ...] = ()


class Mark(Struct, frozen=True):
    """A mark of ours: behind which block, and for how long.

    Attributes:
        block: Index into `Walk.blocks`.
        ttl: Such as `5m`, `1h`, `30m`.
    """

    block: int
    ttl: str


def path_text(path: Path) -> str:
    """`messages[4].content[1]`, as an error or a report says it."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
