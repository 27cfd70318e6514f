"""Attention on a CPU whose every bit depends on the sequence alone.

Keys are taken in tiles at fixed positions, and a softmax runs over them: whatever the
chunks, the company, the padding or the threads, a query meets the same tiles in the same
order, in products of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..kernels.heads import Heads
from ..models.transformer import ModelConfig
from .backend import PagedCache
from .batch import Batch

__all__ = ["TiledAttention"]

_TILE = 128  # keys; also the fixed length by which a long context is split
_ROWS = 16  # the matrix kernels treat rows alike in multiples of it
_LOWEST = -1e30  # below every score, and not infinite: infinities subtract to a NaN


@dataclass(frozen=True, slots=True)
class _Tile:
    """The same tile of the first `num_seqs` sequences of a group, which reach it."""

    num_seqs: int
    slots: Tensor  # [num_seqs * _TILE]
    masks: dict[int | None, Tensor]  # by window, `[num_seqs, 1, rows, _TILE]`


@dataclass(frozen=True, slots=True)
class _Group:
    """Sequences whose queries go into one batch of products, longest context first."""

    rows: Tensor  # [num_seqs, query_len] rows of the batch; a short one repeats its last
    tiles: list[_Tile]


class TiledAttention:
    """Paged attention on a CPU, bit for bit the same for a sequence in whatever step.

    The query heads of a group are packed as rows against the KV head they share, and rows
    are padded to a multiple of 16. Everything is computed in fp32, products included: they
    are exact for what bf16 holds.

    Args:
        model: Shapes, windows, scale and cap of scores.
        cache: The KV blocks.

    Raises:
        ValueError: This machine's products of a row vary with the rows beside it.

    Cost:
        Per layer, some ten small operations for each tile of 128 keys.

    Source:
        Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018,
        algorithm 3.
    """

    def __init__(self, model: ModelConfig, cache: PagedCache) -> None:
        self._model = model
        self._cache = cache
        self._heads_per_kv = model.num_q_heads // model.num_kv_heads
        self._scale = model.attention_scale or model.head_dim**-0.5
        self._windows = {model.window(layer) for layer in range(model.num_layers)}
        self._groups: list[_Group] = []
        _probe(model.head_dim)

    def begin(self, batch: Batch) -> None:
        self._cache.begin(batch)
        lens = np.diff(batch.query_start)
        together = np.flatnonzero(lens * self._heads_per_kv <= max(_ROWS, self._heads_per_kv))
        longest_first = together[np.argsort(-batch.context_lens[together], kind="stable")]
        alone = np.setdiff1d(np.arange(len(lens)), together)
        chosen = [longest_first, *alone[:, None]] if len(together) else list(alone[:, None])
        self._groups = [self._group(batch, each, int(lens[each].max())) for each in chosen]

    def __call__(self, layer: int, qkv: Tensor, heads: Heads, cos: Tensor, sin: Tensor) -> Tensor:
        return self.attend(layer, *heads.split(qkv, cos, sin))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store keys and values, then attend with `[num_tokens, num_q_heads, head_dim]`."""
        self._cache.store(layer, k, v)
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        for group in self._groups:
            out[group.rows] = self._attend(group, layer, q[group.rows]).to(q.dtype)
        return out

    def _group(self, batch: Batch, chosen: NDArray[np.int64], query_len: int) -> _Group:
        starts, stops = batch.query_start[chosen], batch.query_start[chosen + 1]
        rows = np.minimum(starts[:, None] + np.arange(query_len), stops[:, None] - 1)
        positions = batch.positions[rows]
        packed = np.repeat(positions, self._heads_per_kv, axis=1)
        packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % _ROWS)), mode="edge")
        tiles = list(self._tiles(batch, chosen, torch.from_numpy(packed)))
        return _Group(torch.from_numpy(rows), tiles)

    def _tiles(self, batch: Batch, chosen: NDArray[np.int64], positions: Tensor) -> Iterator[_Tile]:
        lens, size = batch.context_lens[chosen], self._cache.block_size
        reach = None if None in self._windows else max(filter(None, self._windows))
        begin = 0 if reach is None else max(0, int(positions.min()) - reach + 1) // _TILE
        for start in range(begin * _TILE, int(lens[0]), _TILE):
            num_seqs = int(np.count_nonzero(lens > start))
            keys = np.arange(start, start + _TILE)
            own = np.minimum(keys, lens[:num_seqs, None] - 1)  # past its end, its last key
            blocks = batch.block_table[chosen[:num_seqs, None], own // size]
            slots = torch.from_numpy((blocks * size + own % size).reshape(-1))
            key, query = torch.from_numpy(keys), positions[:num_seqs, None, :, None]
            masks: dict[int | None, Tensor] = {}
            for window in self._windows:
                hidden = key > query
                if window is not None:
                    hidden |= key <= query - window
                masks[window] = torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
            yield _Tile(num_seqs, slots, masks)

    def _attend(self, group: _Group, layer: int, q: Tensor) -> Tensor:
        """`[num_seqs, query_len, num_q_heads, head_dim]`, and so is what is returned, fp32."""
        num_seqs, query_len, _, head_dim = q.shape
        packed = q.float().view(num_seqs, query_len, -1, self._heads_per_kv, head_dim)
        packed = packed.transpose(1, 2).flatten(2, 3) * self._scale
        num_rows = packed.shape[2]
        packed = functional.pad(packed, (0, 0, 0, -num_rows % _ROWS))
        top = torch.full((*packed.shape[:3], 1), _LOWEST)
        mass, acc = torch.zeros_like(top), torch.zeros_like(packed)
        for tile in group.tiles:
            now = slice(tile.num_seqs)
            keys, values = self._read(layer, tile)
            scores = self._capped(_product(packed[now], keys.transpose(2, 3)))
            scores += tile.masks[self._model.window(layer)]
            new_top = torch.maximum(top[now], scores.amax(-1, keepdim=True))
            weights, fade = (scores - new_top).exp_(), (top[now] - new_top).exp_()
            mass[now] = mass[now] * fade + weights.sum(-1, keepdim=True)
            acc[now] = acc[now] * fade + _product(weights, values)
            top[now] = new_top
        result = (acc / mass)[:, :, :num_rows]
        split = result.reshape(num_seqs, -1, query_len, self._heads_per_kv, head_dim)
        return split.transpose(1, 2).flatten(2, 3)

    def _capped(self, scores: Tensor) -> Tensor:
        cap = self._model.attention_soft_cap
        return scores if cap is None else (scores / cap).tanh_() * cap

    def _read(self, layer: int, tile: _Tile) -> tuple[Tensor, Tensor]:
        """Keys and values of a tile, `[num_seqs, kv_heads, _TILE, head_dim]`, fp32."""
        shape = (tile.num_seqs, _TILE, *self._cache.k.shape[3:])
        k, v = (
            cache[layer].flatten(0, 1).index_select(0, tile.slots).view(shape).transpose(1, 2)
            for cache in (self._cache.k, self._cache.v)
        )
        # Contiguous always: other strides may take other kernels.
        form = torch.contiguous_format
        k, v = k.to(torch.float32, memory_format=form), v.to(torch.float32, memory_format=form)
        return k.contiguous(), v.contiguous()


def _product(one: Tensor, two: Tensor) -> Tensor:
    """`one @ two`, each `[num_seqs, kv_heads, ...]`, as one call of batched products."""
    batched = torch.bmm(one.flatten(0, 1), two.flatten(0, 1))
    return batched.view(*one.shape[:3], two.shape[3])


def _probe(head_dim: int) -> None:
    """Raise `ValueError` unless a row's products are the same in any company."""
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(2, 3, _TILE, head_dim, generator=generator)
    queries = torch.randn(3, 5 * _ROWS, head_dim, generator=generator)
    weights = torch.rand(3, 5 * _ROWS, _TILE, generator=generator)
    for rows, matrix in ((queries, keys.transpose(1, 2)), (weights, values)):
        alone = [torch.bmm(some[1:2], matrix[1:2]) for some in torch.split(rows, _ROWS, dim=1)]
        if not torch.equal(torch.cat(alone, dim=1)[0], torch.bmm(rows, matrix)[1]):
            raise ValueError(
                "numerics='deterministic' does not hold on this machine: products of "
                f"{_ROWS} rows with {' by '.join(map(str, matrix.shape[1:]))} numbers differ with "
                "the rows beside them; use numerics='fast'"
            )
