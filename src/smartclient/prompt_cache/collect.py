"""Collects the blocks of a prompt, taking over what an earlier request has in common with it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from ..wire.encode import encode
from ..wire.value import Value
from .blocks import Block, Path, Tier, Unit, Walk

__all__ = ["Collector", "as_object", "encoded", "items"]

# The fastest of hashlib on machines with instructions for it, which is nearly all of them.
_hash = hashlib.sha256
_DIGEST_BYTES = 16
_TAGS: Mapping[Tier, bytes] = {"tools": b"t", "system": b"s", "messages": b"m"}
_START = bytes(_DIGEST_BYTES)


class Collector:
    """Takes the blocks of one prompt in their order, unit by unit.

    Args:
        before: An earlier walk. Of as many units as are the same from the first one on,
            nothing is read or hashed again.
    """

    __slots__ = (
        "_before",
        "_end",
        "_marks",
        "_position",
        "_prefix",
        "_run",
        "blocks",
        "own_marks",
        "units",
    )

    def __init__(self, before: Walk | None) -> None:
        self.blocks: list[Block] = []
        self.units: list[Unit] = []
        self.own_marks = self._marks = 0
        self._before = before
        self._prefix, self._end = _START, 0
        self._position, self._run = -1, ""

    def take_over(self, source: bytes) -> Unit | None:
        """The next unit from the earlier walk, with its blocks, if it is the same there."""
        before, number = self._before, len(self.units)
        if before is None or number >= len(before.units):
            return None
        unit = before.units[number]
        if unit.source != source:
            return None
        start = len(self.blocks)
        if unit.end > start:
            self.blocks += before.blocks[start : unit.end]
            last = self.blocks[-1]
            self._prefix, self._end = last.prefix, last.end
            self._position, self._run = last.position, unit.run
        self.own_marks += unit.own_marks
        self.units.append(unit)
        return unit

    def close(self, source: bytes, *facts: Any) -> None:
        """The blocks since the last unit are a unit."""
        before, number, end = self._before, len(self.units), len(self.blocks)
        marks, self._marks = self._marks, 0
        self.own_marks += marks
        self.units.append(Unit(source, end, marks, self._run, facts))
        if before is None or number >= len(before.units):
            return
        # It may differ in its marks alone: then what follows is still comparable.
        if before.units[number].end != end or (
            end and before.blocks[end - 1].prefix != self._prefix
        ):
            self._before = None

    def add(
        self,
        path: Path,
        tier: Tier,
        data: bytes,
        is_markable: bool,
        mark: str | None = None,
        inner_marks: tuple[str, ...] = (),
        run: str = "",
    ) -> None:
        """Add the next block.

        Args:
            run: Neighbours of the same run have one position; an empty one has its own.
        """
        if not run or run != self._run:
            self._position += 1
        self._run = run
        if mark is not None or inner_marks:
            self._marks += (mark is not None) + len(inner_marks)
        hashed = _hash(self._prefix + _TAGS[tier])
        hashed.update(data)
        self._prefix = prefix = hashed.digest()[:_DIGEST_BYTES]
        self._end = end = self._end + len(data)
        position = self._position
        self.blocks.append(
            Block(path, tier, data, prefix, end, position, is_markable, mark, inner_marks)
        )


def encoded(values: Mapping[str, Any]) -> dict[str, bytes]:
    """Those that are there, as JSON; a null is not there."""
    return {name: encode(value) for name, value in values.items() if value is not None}


def items(value: Any) -> list[Any] | tuple[Any, ...]:
    """The items of a list; what is no list has none."""
    return value if isinstance(value, list | tuple) else ()


def as_object(value: Any) -> dict[str, Any] | None:
    """`value` as a dict that must not be changed; `None` where it is no JSON object."""
    if isinstance(value, dict):
        return value
    if value is None or isinstance(value, str | list | tuple | int | float):
        return None
    plain = value.to_dict() if isinstance(value, Value) else msgspec.to_builtins(value)
    return plain if isinstance(plain, dict) else None
