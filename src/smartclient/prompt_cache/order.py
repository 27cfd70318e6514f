"""How one sequence became another: in another order, with more, with less, or with others."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["OrderChange", "OrderKind", "order_change"]

OrderKind: TypeAlias = Literal["reorder", "added", "removed", "edit"]


class OrderChange(NamedTuple):
    """What became of a sequence from its first difference on.

    Attributes:
        size: Elements that moved, that came or that went there; 1 for `edit`.
        moved: For `reorder`: index before, index now; as few as can be.
    """

    kind: OrderKind
    size: int
    moved: tuple[tuple[int, int], ...] = ()


def order_change(before: Sequence[Hashable], after: Sequence[Hashable]) -> OrderChange:
    """How `before` became `after`; both begin where they first differ."""
    if not before or not after:
        return OrderChange("added" if after else "removed", len(before) + len(after))
    was_there, is_there = set(before), set(after)
    if after[0] in was_there and before[0] in is_there:
        moved = _moved(before, after)
        return OrderChange("reorder", len(moved), moved)
    if before[0] in is_there:
        return OrderChange("added", after.index(before[0]))
    if after[0] in was_there:
        return OrderChange("removed", before.index(after[0]))
    return OrderChange("edit", 1)


def _moved(before: Sequence[Hashable], after: Sequence[Hashable]) -> tuple[tuple[int, int], ...]:
    """Elements outside the longest run that kept its order; equal ones count in their order."""
    places: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for index, one in enumerate(before):
        places[one].append(index)
    pairs = [(places[one].popleft(), index) for index, one in enumerate(after) if places[one]]
    kept = _rising([old for old, _ in pairs])
    return tuple(pair for index, pair in enumerate(pairs) if index not in kept)


def _rising(numbers: Sequence[int]) -> set[int]:
    """Indices of a longest rising subsequence. Source: Fredman, "On computing the length of
    longest increasing subsequences", 1975 (patience sorting)."""
    tops: list[int] = []  # the smallest number that ends a run of each length
    ends: list[int] = []  # and its index
    links: list[int | None] = []
    for index, number in enumerate(numbers):
        length = bisect_left(tops, number)
        links.append(ends[length - 1] if length else None)
        tops[length : length + 1] = [number]
        ends[length : length + 1] = [index]
    kept: set[int] = set()
    at = ends[-1] if ends else None
    while at is not None:
        kept.add(at)
        at = links[at]
    return kept
