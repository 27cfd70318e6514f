"""Collects the blocks of a prompt, taking over what an earlier request has in common with it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..wire.value import Value, verbatim
from .blocks import Block, Path, Tier, Unit, Walk

__all__ = ["Collector", "as_object", "encode", "encoded", "items"]

encode = msgspec.json.Encoder(enc_hook=verbatim).encode
"""As a request's body is encoded; what goes wrong need not be worded here."""

# The fastest of hashlib on machines with instructions for it, which is nearly all of them.
_hash = hashlib.sha256
_DIGEST_BYTES = 16
_TAGS: Mapping[Tier, bytes] = {"tools": b"t", "system": b"s", "messages": b"m"}
_START = bytes(_DIGEST_BYTES)


class Collector:
    """Takes the blocks of one prompt in their order, unit by unit.

    Args:
        before: Earlier walks. Of as many units as are the same from the first one on in any
            of them, nothing is read or hashed again.
    """

    __slots__ = (
        "_before",
        "_end",
        "_held",
        "_marks",
        "_position",
        "_prefix",
        "_run",
        "_source",
        "blocks",
        "own_marks",
        "units",
    )

    def __init__(self, before: Sequence[Walk] = ()) -> None:
        self.blocks: list[Block] = []
        self.units: list[Unit] = []
        self.own_marks = self._marks = 0
        self._before = before  # those that are the same up to here
        self._prefix, self._end, self._held = _START, 0, 0
        self._position, self._run = -1, ""
        self._source: tuple[Any, bytes] | None = None  # of the value that was not taken over

    def take_over(self, values: Sequence[Any], start: int = 0) -> int:
        """Take the next units from an earlier walk, as many as `values` are the same there.

        Args:
            start: The value that the next unit is of.

        Returns:
            How many; the last one of `units` tells the rest.
        """
        first, most = len(self.units), 0
        sources: list[bytes] = []  # of `values`, as far as anybody asked
        same: list[Walk] = []
        for walk in self._before:
            number = 0
            for unit in walk.units[first : first + len(values) - start]:
                if number == len(sources):
                    sources.append(encode(values[start + number]))
                if unit.source != sources[number]:
                    break
                number += 1
            if number > most:
                same, most = [walk], number
            elif number == most:
                same.append(walk)
        if most:
            self._before = same
            self._extend(same[0], first + most)
        self._source = (values[start + most], sources[most]) if most < len(sources) else None
        return most

    def source(self, value: Any) -> bytes:
        """Its JSON; no work for the one at which `take_over` ended."""
        known = self._source
        return known[1] if known is not None and known[0] is value else encode(value)

    def _extend(self, before: Walk, end: int) -> None:
        """By the units of `before` up to `end`, and their blocks."""
        first = len(self.units)
        taken = before.units[first:end]
        self._held += taken[-1].held - (before.units[first - 1].held if first else 0)
        self.units += taken
        self.own_marks += sum([unit.own_marks for unit in taken])
        start, stop = len(self.blocks), taken[-1].end
        if stop > start:
            self.blocks += before.blocks[start:stop]
            last = self.blocks[-1]
            self._prefix, self._end = last.prefix, last.end
            self._position, self._run = last.position, taken[-1].run

    def close(self, source: bytes, *facts: Any) -> None:
        """The blocks since the last unit are a unit."""
        number, end, prefix = len(self.units), len(self.blocks), self._prefix
        marks, self._marks = self._marks, 0
        self.own_marks += marks
        self._held += len(source)
        self.units.append(Unit(_cut(source), end, marks, self._run, facts, self._held))
        # One may differ in its marks alone: then what follows is still comparable.
        self._before = [
            walk
            for walk in self._before
            if number < len(walk.units)
            and walk.units[number].end == end
            and (not end or walk.blocks[end - 1].prefix == prefix)
        ]

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
        self._held += len(data)
        data = _cut(data)
        position = self._position
        self.blocks.append(
            Block(path, tier, data, prefix, end, position, is_markable, mark, inner_marks)
        )


def _cut(data: bytes) -> bytes:
    """`data` alone: what an encoder gives has room for half as much again."""
    return bytes(memoryview(data))


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
