"""Attention on a CPU, in PyTorch: as fast as it will go there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..models.transformer import ModelConfig
from .attention_backends import PagedCache
from .batch_builder import Batch
from .kv_mirror import KvMirror, Region

__all__ = ["TorchAttention"]

_FEW = 16  # new tokens of a sequence that reads the mirror: a decode, a draft, a prompt's end


@dataclass(frozen=True, slots=True)
class _Group:
    """Sequences with equally many new tokens, attended to in one call.

    `views` has, for each window of the model, the first key that any query sees and the
    mask on the keys from there to `stop`; no mask: all see all.
    """

    rows: Tensor  # [num_seqs * query_len] rows of the batch
    num_seqs: int
    query_len: int
    stop: int  # the longest context's end
    blocks: NDArray[np.int64]  # [num_seqs, max_blocks]
    region: Region | None  # in the mirror, the first of `num_seqs` side by side
    views: dict[int | None, tuple[int, Tensor | None]]


class _Held(NamedTuple):
    """A sequence, `at` its place in the batch, that has a region of the mirror."""

    query_len: int
    size: int
    offset: int
    at: int
    region: Region


class TorchAttention:
    """Paged attention on a CPU.

    Sequences with few new tokens go in groups of similar context length, the query heads
    of a group packed as rows against the KV head they share. They read a mirror of their
    blocks while it has room, and gather their blocks where it has none. Longer chunks run
    one by one, from their blocks; they have rows enough, so there the heads of a group share
    their KV head as an expanded view, which copies nothing and lets a whole prompt use the
    causal kernel. To pack them too is no faster (9 query and 3 KV heads of 64, 256 tokens
    after 600: 8.7 against 8.9 ms in bf16, 15.6 against 15.5 in fp32, one thread, torch 2.13),
    and slower for a whole prompt in fp32. Scores and softmax are fp32.

    Args:
        model: Shapes, windows, scale.
        cache: The KV blocks.
        mirror_tokens: Room of the mirror.

    Raises:
        ValueError: The model caps its scores, which this kernel cannot.

    Cost:
        Per layer, reads each context once; where it must gather, copies it first.
    """

    def __init__(self, model: ModelConfig, cache: PagedCache, *, mirror_tokens: int = 0) -> None:
        if model.attention_soft_cap is not None:
            raise ValueError("TorchAttention caps no scores; take TiledAttention")
        self._model = model
        self._cache = cache
        self._mirror = KvMirror(cache, num_tokens=mirror_tokens)
        self._heads_per_kv = model.num_q_heads // model.num_kv_heads
        self._windows = {model.window(layer) for layer in range(model.num_layers)}
        self._groups: list[_Group] = []

    def begin(self, batch: Batch) -> None:
        self._cache.begin(batch)
        self._mirror.keep(set(batch.owners))
        starts = batch.positions[batch.query_start[:-1]].tolist()
        held: list[_Held] = []
        loose: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for at, (start, stop) in enumerate(zip(starts, batch.context_lens.tolist(), strict=True)):
            if stop - start > _FEW:
                self._mirror.cut(batch.owners[at], start)
                loose[at, 0].append(at)  # alone
                continue
            region = self._mirror.region(batch.owners[at], start, stop, batch.block_table[at])
            if region is None:
                loose[-(stop - start), self._num_blocks(stop).bit_length()].append(at)
            else:
                held.append(_Held(stop - start, region.size, region.offset, at, region))
        self._groups = [self._group(batch, chosen) for chosen in loose.values()]
        for run in _runs(held):
            chosen = [one.at for one in run]
            self._groups.append(self._group(batch, chosen, region=run[0].region))
        self._begin_mirror(batch, held)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self._cache.store(layer, k, v)
        self._mirror.store(layer, k, v)
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        for group in self._groups:
            self._attend(group, layer, q, out)
        return out

    def _begin_mirror(self, batch: Batch, held: list[_Held]) -> None:
        offsets = np.full(len(batch.owners), -1)
        offsets[[one.at for one in held]] = [one.offset for one in held]
        per_row = np.repeat(offsets, np.diff(batch.query_start))
        rows = np.flatnonzero(per_row >= 0)
        self._mirror.begin(rows, per_row[rows] + batch.positions[rows], len(per_row))

    def _group(self, batch: Batch, chosen: list[int], *, region: Region | None = None) -> _Group:
        start, end = batch.query_start[chosen[0] : chosen[0] + 2]
        rows = batch.query_start[chosen][:, None] + np.arange(end - start)
        positions, stop = torch.from_numpy(batch.positions[rows]), batch.context_lens[chosen].max()
        views = {window: self._view(positions, int(stop), window) for window in self._windows}
        blocks = batch.block_table[chosen, : self._num_blocks(int(stop))]
        flat = torch.from_numpy(rows.reshape(-1))
        return _Group(flat, len(rows), rows.shape[1], int(stop), blocks, region, views)

    def _view(self, positions: Tensor, stop: int, window: int | None) -> tuple[int, Tensor | None]:
        """The first key that any query sees, and the mask on those from it to `stop`."""
        query_len = positions.shape[1]
        if query_len == stop > _FEW and (window is None or window >= stop):
            return 0, None  # a whole prompt: the kernel knows the triangle by itself
        reach = stop if window is None else window
        first = max(0, int(positions.min()) - reach + 1)
        keys, queries = torch.arange(first, stop), positions[..., None]
        seen = (keys <= queries) & (keys > queries - reach)  # [num_seqs, query_len, keys]
        if seen.all():
            return first, None
        mask = torch.zeros(seen.shape, dtype=self._cache.k.dtype).masked_fill_(~seen, -torch.inf)
        if query_len > _FEW:
            return first, mask[0]
        if query_len > 1:
            mask = mask.repeat_interleave(self._heads_per_kv, dim=1)
        return first, mask[:, None]

    def _attend(self, group: _Group, layer: int, q: Tensor, out: Tensor) -> None:
        first, mask = group.views[self._model.window(layer)]
        keys, values = self._read(group, layer, first)  # [num_seqs, keys, kv_heads, head_dim]
        rows = q.index_select(0, group.rows)
        rows = rows.view(group.num_seqs, group.query_len, -1, self._heads_per_kv, q.shape[-1])
        scale = self._model.attention_scale
        if group.query_len > _FEW:
            shared = (-1, self._heads_per_kv, -1, -1)
            attended = scaled_dot_product_attention(
                rows[0].permute(1, 2, 0, 3),  # [kv_heads, heads_per_kv, query_len, head_dim]
                keys[0].transpose(0, 1)[:, None].expand(shared),
                values[0].transpose(0, 1)[:, None].expand(shared),
                attn_mask=mask,
                is_causal=mask is None,
                scale=scale,
            ).permute(2, 0, 1, 3)
        else:
            attended = scaled_dot_product_attention(
                rows.transpose(1, 2).flatten(2, 3),  # a KV head's queries are its rows
                keys.transpose(1, 2),
                values.transpose(1, 2),
                attn_mask=mask,
                scale=scale,
            )
            shape = (group.num_seqs, -1, group.query_len, *rows.shape[3:])
            attended = attended.reshape(shape).transpose(1, 2)
        out.index_copy_(0, group.rows, attended.reshape(-1, *q.shape[1:]))

    def _read(self, group: _Group, layer: int, first: int) -> tuple[Tensor, Tensor]:
        base = 0
        if group.region is not None:
            k, v = self._mirror.view(layer, group.region, group.num_seqs)
        else:
            skipped = first // self._cache.block_size
            k, v = self._cache.gather(layer, group.blocks[:, skipped:])
            base = skipped * self._cache.block_size
        return k[:, first - base : group.stop - base], v[:, first - base : group.stop - base]

    def _num_blocks(self, context_len: int) -> int:
        return -(-context_len // self._cache.block_size)


def _runs(held: list[_Held]) -> list[list[_Held]]:
    """Those with equally many new tokens whose regions are equal and side by side."""
    runs: list[list[_Held]] = []
    for one in sorted(held):
        last = runs[-1][-1] if runs else None
        if last and one[:3] == (last.query_len, last.size, last.offset + last.size):
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs
