"""The first place where two prompts part: a parameter, a block's order, or a block's content."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import get_args

import msgspec
from msgspec import Struct

from .blocks import Block, Path, Tier, Walk
from .difference import Difference, json_difference
from .order import OrderChange, order_change

__all__ = ["TIERS", "Divergence", "divergence"]

TIERS: tuple[Tier, ...] = get_args(Tier)

_ELSEWHERE = ("previous_response_id", "conversation")
"""Where the prompt goes on from what the provider keeps: it is not in the payload."""
_OF_MESSAGES = frozenset({"role", "name", "tool_call_id", "call_id"})
"""What a walk puts before the first part of a message's content."""


class Divergence(Struct, frozen=True, kw_only=True):
    """Where two prompts part.

    Attributes:
        difference: What differs, with its path from the top of the payload.
        block: Index of the first block of the later prompt that comes after it.
        parameters: What changed beside the blocks, all of it in that tier.
        names: Of the tools that moved, in the order of `difference.moved`.
        is_inside: A block's content differs, not which blocks there are.
        shared_bytes: The prefix that both have.
        end_bytes: The prefix that they would have shared without it.
    """

    difference: Difference
    tier: Tier
    block: int
    shared_bytes: int
    end_bytes: int
    is_inside: bool = False
    parameters: tuple[str, ...] = ()
    names: tuple[str | None, ...] = ()


def divergence(before: Walk, after: Walk, *, entry: int | None = None) -> Divergence | None:
    """Where two prompts part; `None` where one only continues the other.

    Args:
        entry: Index into `before.blocks` of the last block that could have been shared.
    """
    end = min(_end(before.blocks, _behind(before, entry)), _end(after.blocks))
    first = _first_other(before.blocks, after.blocks)
    changed = _changed_parameters(before, after)
    if changed is not None:
        tier, names = changed
        place = _start(after.blocks, tier)
        if first is None or place <= first:
            return _of_parameters(before, after, tier, names, place, end)
    if first is None or not _is_comparable(before, after, first):
        return None
    return _of_blocks(before, after, first, end)


def _first_other(before: Sequence[Block], after: Sequence[Block]) -> int | None:
    """Index of the first block that differs; a digest stands for all that is before it."""
    low, high = 0, min(len(before), len(after))
    if high == 0 or before[high - 1].prefix == after[high - 1].prefix:
        return None
    while low < high:
        middle = (low + high) // 2
        if before[middle].prefix == after[middle].prefix:
            low = middle + 1
        else:
            high = middle
    return low


def _changed_parameters(before: Walk, after: Walk) -> tuple[Tier, tuple[str, ...]] | None:
    """The first tier with parameters that differ, and their names."""
    whole = [
        name for name in ("endpoint", "model") if getattr(before, name) != getattr(after, name)
    ]
    for tier in TIERS:
        old, new = before.params.get(tier, {}), after.params.get(tier, {})
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        names = [name for name in names if name not in _ELSEWHERE]
        found = tuple(dict.fromkeys([*whole, *names])) if tier == "tools" else tuple(names)
        if found:
            return tier, found
    return None


def _is_comparable(before: Walk, after: Walk, first: int) -> bool:
    """Whether what differs is seen whole: history that the provider keeps is not, tools are."""
    old, new = before.params.get("tools", {}), after.params.get("tools", {})
    if all(old.get(name) == new.get(name) for name in _ELSEWHERE):
        return True
    return "tools" in (before.blocks[first].tier, after.blocks[first].tier)


def _start(blocks: Sequence[Block], tier: Tier) -> int:
    """Index of the first block of `tier`, or of what comes after it."""
    rank = TIERS.index(tier)
    behind = (i for i, block in enumerate(blocks) if TIERS.index(block.tier) >= rank)
    return next(behind, len(blocks))


def _behind(walk: Walk, entry: int | None) -> int | None:
    if entry is not None and not 0 <= entry < len(walk.blocks):
        raise ValueError(
            f"entry must be one of the {len(walk.blocks)} blocks of the request before, "
            f"not {entry}; None takes all of them"
        )
    return None if entry is None else entry + 1


def _end(blocks: Sequence[Block], index: int | None = None) -> int:
    """Bytes of the blocks up to and without `index`; of all of them for `None`."""
    index = len(blocks) if index is None else index
    return blocks[index - 1].end if index else 0


def _of_parameters(
    before: Walk, after: Walk, tier: Tier, names: tuple[str, ...], place: int, end: int
) -> Divergence:
    name = names[0]
    old, new = (walk.params.get(tier, {}).get(name) for walk in (before, after))
    inner = json_difference(old, new) if old is not None and new is not None else None
    steps: Path = (name, *(inner.steps if inner is not None else ()))
    found = Difference(kind="parameter", steps=steps)
    return Divergence(
        difference=found,
        tier=tier,
        block=place,
        shared_bytes=_end(after.blocks, place),
        end_bytes=end,
        parameters=names,
    )


def _of_blocks(before: Walk, after: Walk, first: int, end: int) -> Divergence:
    old, new = before.blocks[first], after.blocks[first]
    names: tuple[str | None, ...] = ()
    is_inside = True
    if old.data == new.data:  # what is around the block: its role, where its message begins
        steps = new.path[:2] if new.tier == "messages" else new.path
        found = Difference(kind="edit", steps=steps)
    else:
        found, names, is_inside = _of_order(before.blocks, after.blocks, first)
    rank = min(TIERS.index(old.tier), TIERS.index(new.tier))
    return Divergence(
        difference=found,
        tier=TIERS[rank],
        block=first,
        shared_bytes=_end(after.blocks, first),
        end_bytes=end,
        is_inside=is_inside,
        names=names,
    )


def _of_order(
    before: Sequence[Block], after: Sequence[Block], first: int
) -> tuple[Difference, tuple[str | None, ...], bool]:
    """The rest of the tier in another order, with more or less; or a block with other content.

    With the names of what moved, and whether it is the content.
    """
    tier = min(before[first].tier, after[first].tier, key=TIERS.index)
    old, new = _rest(before, first, tier), _rest(after, first, tier)
    change, names = _order(old, new, tier)
    if change.kind == "edit":
        return _of_content(old[0], new[0]), (), True
    where = old[0].path if change.kind == "removed" else new[0].path
    moved = [(old[one].path, new[other].path) for one, other in change.moved[:10]]
    told = tuple(names[one] for one, _ in change.moved[:10])
    found = Difference(kind=change.kind, steps=where, count=change.size, moved=tuple(moved))
    return found, told, False


def _rest(blocks: Sequence[Block], first: int, tier: Tier) -> Sequence[Block]:
    end = next((i for i in range(first, len(blocks)) if blocks[i].tier != tier), len(blocks))
    return blocks[first:end]


def _order(
    old: Sequence[Block], new: Sequence[Block], tier: Tier
) -> tuple[OrderChange, Mapping[int, str | None]]:
    """What became of the order. Tools are known by their names, so that one can move and change."""
    if tier == "tools":
        known, now = [_name(one) for one in old], [_name(one) for one in new]
        if None not in known and None not in now and (not old or not new or known[0] != now[0]):
            return order_change(known, now), dict(enumerate(known))
        if old and new and known[0] is not None and known[0] == now[0]:
            return OrderChange("edit", 1), {}
    keys: list[Hashable] = [one.data for one in old]
    change = order_change(keys, [one.data for one in new])
    return change, dict.fromkeys(range(len(old)))


def _of_content(old: Block, new: Block) -> Difference:
    found = json_difference(old.data, new.data)
    moved = [(_placed(old, one), _placed(new, other)) for one, other in found.moved]
    return msgspec.structs.replace(found, steps=_placed(new, found.steps), moved=tuple(moved))


def _placed(block: Block, steps: Path) -> Path:
    """Where in the payload something inside a block is.

    A walk writes a text as the part that it is short for, puts the role of a message before
    its parts, and what is no object under an empty name or as `[head, part]`.
    """
    if not steps:
        return block.path
    path, first = block.path, steps[0]
    if first == "text" and isinstance(path[-1], str):
        return (*path, *steps[1:])
    if first == "":
        return (*path, *steps[1:])
    if len(path) > 2 and block.data.startswith(b"["):
        return (*path, *steps[1:]) if first == 1 else (*path[:2], *steps[1:])
    if len(path) > 2 and first in _OF_MESSAGES and (first == "role" or path[2] != "tool_calls"):
        return (*path[:2], *steps)
    return (*path, *steps)


class _Function(Struct):
    name: str | None = None


class _Tool(Struct):
    name: str | None = None
    type: str | None = None
    function: _Function | None = None


_TOOL = msgspec.json.Decoder(_Tool)


def _name(block: Block) -> str | None:
    """A tool's name, of either format; its type where it has no name."""
    try:
        tool = _TOOL.decode(block.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    inner = tool.function.name if tool.function is not None else None
    return tool.name or inner or tool.type
