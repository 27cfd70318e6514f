"""Running sequences' keys and values once more, each in one piece, for decodes to read.

Blocks stay the truth: what is here was copied from them or written to both, may be dropped
at any time, and is bounded.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .backend import PagedCache

__all__ = ["KvMirror", "Owner", "Region"]

_LEAST = 64  # tokens of a region

Owner = tuple[int, int]
"""One stay of one sequence on the engine, as `Batch.owners` has it."""


@dataclass(slots=True)
class Region:
    """A piece of the mirror: 64 tokens times a power of two, at a multiple of its size.

    Its first `num_valid` tokens are those of the owner's blocks; up to `num_clean` none is
    another's.
    """

    offset: int
    size: int
    num_valid: int = 0
    num_clean: int = 0


class KvMirror:
    """Regions for owners, from one array by the buddy method.

    Regions of one size side by side are a strided view `[regions, size, heads, head_dim]`:
    one call of attention reads them all, and copies nothing.

    Args:
        cache: The blocks.
        num_tokens: Tokens of all regions together; an owner may find no room, and 0 has
            none for anybody.

    Attributes:
        k: Keys, `[num_layers, num_tokens, num_kv_heads, head_dim]`.
        v: Values, like `k`.

    Source:
        Knowlton, "A fast storage allocator", 1965.
    """

    def __init__(self, cache: PagedCache, *, num_tokens: int) -> None:
        shape = (len(cache.k), num_tokens, *cache.k.shape[3:])
        self.k = torch.empty(shape, dtype=cache.k.dtype)  # memory is taken when first touched
        self.v = torch.empty(shape, dtype=cache.k.dtype)
        self._by_layer = list(zip(self.k, self.v, strict=True))
        self._cache = cache
        self._held: dict[Owner, Region] = {}
        self._latest: Container[Owner] = ()
        self._free: dict[int, set[int]] = {}  # offsets by size
        sizes = [_LEAST << bit for bit in range(64) if num_tokens // _LEAST >> bit & 1]
        start = 0
        for size in reversed(sizes):
            self._free[size] = {start}
            start += size
        self._slots = torch.empty(0, dtype=torch.int64)
        self._rows: Tensor | None = None

    def keep(self, owners: Container[Owner]) -> None:
        """Begin a step of these owners; whoever misses two in a row loses its region."""
        stale = [one for one in self._held if one not in owners and one not in self._latest]
        for owner in stale:
            self._release(owner)
        self._latest = owners

    def region(
        self, owner: Owner, start: int, stop: int, table: NDArray[np.int64], *, whole: int = 0
    ) -> Region | None:
        """Where the owner's tokens before `start` are and those up to `stop` will be written.

        What is missing is copied from the blocks of `table`. `None`: there is no room.

        Args:
            whole: Tokens that it is known to have before long.
        """
        region = self._held.get(owner)
        if region is None or region.size < stop:
            region = self._grown(owner, max(stop, whole)) or self._grown(owner, stop)
            if region is None:
                return None
        self._fill(region, start, table)
        region.num_valid = stop
        region.num_clean = max(stop, region.num_clean)
        return region

    def clean(self, region: Region, stop: int) -> None:
        """Have numbers up to `stop`: a masked NaN is a NaN once multiplied by 0."""
        if region.num_clean < stop:
            begin, region.num_clean = region.num_clean, min(region.size, stop + _LEAST)
            for array in (self.k, self.v):
                array[:, region.offset + begin : region.offset + region.num_clean] = 0

    def begin(self, rows: NDArray[np.int64], slots: NDArray[np.int64], num_rows: int) -> None:
        """Take the rows, of `num_rows`, that `store` writes in every layer, and their places."""
        is_all = len(rows) == num_rows and bool((rows == np.arange(num_rows)).all())
        self._rows = None if is_all else torch.from_numpy(rows)
        self._slots = torch.from_numpy(slots)

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        if len(self._slots):
            for array, new in zip(self._by_layer[layer], (k, v), strict=True):
                rows = new if self._rows is None else new.index_select(0, self._rows)
                array.index_copy_(0, self._slots, rows)

    def view(
        self, layer: int, first: Region, count: int, start: int, stop: int
    ) -> tuple[Tensor, Tensor]:
        """Keys and values at positions `start` to `stop` of `count` regions from `first` on.

        Each is `[count, num_kv_heads, stop - start, head_dim]`.
        """
        _, num_tokens, num_heads, head_dim = self.k.shape
        token = num_heads * head_dim
        shape = (count, num_heads, stop - start, head_dim)
        strides = (first.size * token, head_dim, token, 1)
        begin = (layer * num_tokens + first.offset + start) * token
        # One call each: this runs for every group and layer.
        return self.k.as_strided(shape, strides, begin), self.v.as_strided(shape, strides, begin)

    def _fill(self, region: Region, start: int, table: NDArray[np.int64]) -> None:
        at, block_size = region.num_valid, self._cache.block_size
        if at >= start:
            return
        first = at // block_size
        blocks = torch.from_numpy(table[first : -(-start // block_size)])
        for array, cache in ((self.k, self._cache.k), (self.v, self._cache.v)):
            tokens = cache.index_select(1, blocks).flatten(1, 2)[:, at - first * block_size :]
            array[:, region.offset + at : region.offset + start] = tokens[:, : start - at]

    def _grown(self, owner: Owner, num_tokens: int) -> Region | None:
        """A region of its own for an owner, or its own in place or copied; `None`: no room."""
        size, old = max(_LEAST, 1 << (num_tokens - 1).bit_length()), self._held.get(owner)
        if old is not None:
            while old.size < size and old.offset ^ old.size in self._free.get(old.size, ()):
                if old.offset & old.size:
                    break  # what is free lies before it
                self._free[old.size].remove(old.offset + old.size)
                old.size *= 2
            if old.size >= size:
                return old
        region = self._take(size)
        if old is not None and region is not None:
            region.num_valid = region.num_clean = old.num_valid
            for array in (self.k, self.v):
                tokens = array[:, old.offset : old.offset + old.num_valid]
                array[:, region.offset : region.offset + old.num_valid] = tokens
        if old is not None:
            self._release(owner)
            region = region or self._take(size)  # in its place, to be filled from blocks
        if region is not None:
            self._held[owner] = region
        return region

    def _take(self, size: int) -> Region | None:
        found = min((each for each, free in self._free.items() if free and each >= size), default=0)
        if not found:
            return None
        offset = min(self._free[found])
        self._free[found].remove(offset)
        while found > size:
            found //= 2
            self._free.setdefault(found, set()).add(offset + found)
        return Region(offset, size)

    def _release(self, owner: Owner) -> None:
        region = self._held.pop(owner)
        offset, size = region.offset, region.size
        while (buddy := offset ^ size) in self._free.get(size, ()):
            self._free[size].remove(buddy)
            offset, size = min(offset, buddy), 2 * size
        self._free.setdefault(size, set()).add(offset)
