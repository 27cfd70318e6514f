"""Collects the blocks of a prompt, taking over what an earlier request has in common with it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from ..wire.encode import encode
from ..wire.value import Value
from .blocks import Block, Path, Tier, Walk

__all__ = ["Collector", "as_object", "encoded", "items"]

# The fastest of hashlib on machines with instructions for it, which is nearly all of them.
_hash = hashlib.sha256
_DIGEST_BYTES = 16
_TAGS: Mapping[Tier, bytes] = {"tools": b"t", "system": b"s", "messages": b"m"}
_START = bytes(_DIGEST_BYTES)


class Collector:
    """Takes the blocks of one prompt in their order.

    Args:
        before: An earlier walk. Of as many blocks as are the same from the first one on,
            nothing is hashed again.
    """

    __slots__ = ("_end", "_old", "_position", "_prefix", "_run", "blocks", "own_marks")

    def __init__(self, before: Walk | None) -> None:
        self.blocks: list[Block] = []
        self.own_marks = 0
        self._old = iter(before.blocks if before is not None else ())
        self._prefix, self._end = _START, 0
        self._position, self._run = -1, ""

    def add(
        self,
        path: Path,
        tier: Tier,
        data: bytes,
        *,
        is_markable: bool = True,
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
            self.own_marks += (mark is not None) + len(inner_marks)
        old = next(self._old, None)
        if old is not None and old.data == data and old.tier == tier:
            prefix, end = self._prefix, self._end = old.prefix, old.end
        else:
            old, self._old = None, iter(())
            prefix, end = self._chain(tier, data)
        position = self._position
        block = Block(path, tier, data, prefix, end, position, is_markable, mark, inner_marks)
        self.blocks.append(old if block == old else block)

    def _chain(self, tier: Tier, data: bytes) -> tuple[bytes, int]:
        hashed = _hash(self._prefix + _TAGS[tier])
        hashed.update(data)
        self._prefix = hashed.digest()[:_DIGEST_BYTES]
        self._end += len(data)
        return self._prefix, self._end


def encoded(values: Mapping[str, Any]) -> dict[str, bytes]:
    """Those that are there, as JSON; a null is not there."""
    return {name: encode(value) for name, value in values.items() if value is not None}


def items(value: Any) -> list[Any] | tuple[Any, ...]:
    """The items of a list; what is no list has none."""
    return value if isinstance(value, list | tuple) else ()


def as_object(value: Any) -> dict[str, Any] | None:
    """`value` as a dict that must not be changed; `None` where it is no JSON object."""
    if type(value) is dict:
        return value
    if value is None or isinstance(value, str | list | tuple | int | float):
        return None
    plain = value.to_dict() if isinstance(value, Value) else msgspec.to_builtins(value)
    return plain if isinstance(plain, dict) else None
