"""Attention on a CPU, in PyTorch: as fast as it will go there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..config import Numerics
from ..kernels.heads import Heads
from ..models.transformer import ModelConfig
from .backend import AttentionBackend, PagedCache
from .batch import Batch
from .kv_mirror import KvMirror, Region
from .tiled_attention import TiledAttention

__all__ = ["TorchAttention", "cpu_attention"]

_FEW = 16  # new tokens of a sequence that others can join: a decode, a draft, a prompt's end


def cpu_attention(
    numerics: Numerics, model: ModelConfig, cache: PagedCache, *, mirror_tokens: int
) -> AttentionBackend:
    """The backend for these numerics; a model that caps its scores needs tiles with either."""
    if numerics == "deterministic" or model.attention_soft_cap is not None:
        return TiledAttention(model, cache)
    return TorchAttention(model, cache, mirror_tokens=mirror_tokens)


@dataclass(frozen=True, slots=True)
class _Group:
    """Sequences with equally many new tokens, attended to in one call.

    `views` has, for each window of the model, the first key that any query sees and the
    mask on the keys from there to `stop`. No mask: one query sees all, many are a whole
    prompt, whose triangle the kernel knows by itself.
    """

    num_seqs: int
    query_len: int
    stop: int  # the longest context's end
    blocks: NDArray[np.int64]  # [num_seqs, max_blocks]
    region: Region | None  # in the mirror, the first of `num_seqs` side by side
    views: dict[int | None, tuple[int, Tensor | None]]


class _Member(NamedTuple):
    """A sequence with few new tokens; in order, those that can share a call are neighbours."""

    query_len: int
    size: int  # of its region; 0: it has none
    place: int  # its region's offset, or how long it is, roughly
    at: int  # in the batch
    start: int
    region: Region | None

    def joins(self, before: _Member) -> bool:
        """Whether it fits into the group of its neighbour."""
        return self[:3] == (before.query_len, before.size, before.place + before.size)


class TorchAttention:
    """Paged attention on a CPU.

    Sequences with few new tokens go in groups of similar context length, the query heads
    of a group packed as rows against the KV head they share. All read a mirror of their
    blocks while it has room, and gather their blocks where it has none. Longer chunks run
    one by one; they have rows enough, so there the heads of a group share
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
        self._num_rows: list[int] = []  # of each
        self._rows: Tensor | None = None
        self._back = torch.empty(0, dtype=torch.int64)

    def begin(self, batch: Batch) -> None:
        self._cache.begin(batch)
        starts = batch.positions[batch.query_start[:-1]].tolist()
        spans = list(zip(starts, batch.context_lens.tolist(), strict=True))
        self._mirror.keep(set(batch.owners))
        members = sorted(self._member(batch, at, *span) for at, span in enumerate(spans))
        self._groups, orders = [], [np.empty(0, dtype=np.int64)]
        for _, alike in groupby(members, key=lambda member: member.query_len):
            orders.append(self._add(batch, list(alike)))
        self._num_rows = [group.num_seqs * group.query_len for group in self._groups]
        self._begin_mirror(batch, members)
        order = np.concatenate(orders)
        self._rows = None if (order[1:] > order[:-1]).all() else torch.from_numpy(order)
        self._back = torch.from_numpy(np.argsort(order))

    def __call__(self, layer: int, qkv: Tensor, heads: Heads, cos: Tensor, sin: Tensor) -> Tensor:
        return self.attend(layer, *heads.split(qkv, cos, sin))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store keys and values, then attend with `[num_tokens, num_q_heads, head_dim]`."""
        self._cache.store(layer, k, v)
        self._mirror.store(layer, k, v)
        rows = q if self._rows is None else q.index_select(0, self._rows)
        rows = rows.view(len(q), -1, self._heads_per_kv, q.shape[2])
        parts = [
            self._attend(group, layer, some)
            for group, some in zip(self._groups, torch.split(rows, self._num_rows), strict=True)
        ]
        out = (parts[0] if len(parts) == 1 else torch.cat(parts)).reshape(q.shape)
        return out if self._rows is None else out.index_select(0, self._back)

    def _member(self, batch: Batch, at: int, start: int, stop: int) -> _Member:
        query_len, whole = stop - start, int(batch.targets[at])
        region = self._mirror.region(
            batch.owners[at], start, stop, batch.block_table[at], whole=whole
        )
        if query_len > _FEW:
            return _Member(query_len, 0, -1 - at, at, start, region)  # alone
        if region is None:
            return _Member(query_len, 0, self._num_blocks(stop).bit_length(), at, start, None)
        return _Member(query_len, region.size, region.offset, at, start, region)

    def _begin_mirror(self, batch: Batch, members: list[_Member]) -> None:
        offsets = np.full(len(batch.owners), -1)
        for member in members:
            if member.region is not None:
                offsets[member.at] = member.region.offset
        per_row = np.repeat(offsets, np.diff(batch.query_start))
        rows = np.flatnonzero(per_row >= 0)
        self._mirror.begin(rows, per_row[rows] + batch.positions[rows], len(per_row))

    def _add(self, batch: Batch, members: list[_Member]) -> NDArray[np.int64]:
        """Groups of sequences with equally many new tokens; returns all their rows."""
        chosen, query_len = [member.at for member in members], members[0].query_len
        rows = batch.query_start[chosen][:, None] + np.arange(query_len)
        longest = int(batch.context_lens[chosen].max())
        masks = {each: self._mask(batch.positions[rows], each, longest) for each in self._windows}
        cuts = [at for at in range(1, len(members)) if not members[at].joins(members[at - 1])]
        for begin, end in pairwise([0, *cuts, len(members)]):
            starts = [member.start for member in members[begin:end]]
            least, stop = min(starts), max(starts) + query_len
            views: dict[int | None, tuple[int, Tensor | None]] = {}
            for window, mask in masks.items():
                first = 0 if window is None else max(0, least - window + 1)
                is_prompt = query_len > _FEW and least == 0 and (window is None or window >= stop)
                is_even = query_len == 1 and least + 1 == stop
                own = None if is_prompt or is_even else mask[begin:end, ..., first:stop]
                views[window] = first, own
            for member in members[begin:end]:
                if member.region is not None:
                    self._mirror.clean(member.region, stop)
            blocks = batch.block_table[chosen[begin:end], : self._num_blocks(stop)]
            region = members[begin].region
            self._groups.append(_Group(end - begin, query_len, stop, blocks, region, views))
        return rows.reshape(-1)

    def _mask(self, positions: NDArray[np.int64], window: int | None, stop: int) -> Tensor:
        """0 at what a query sees of `stop` keys, minus infinity elsewhere.

        `[num_seqs, 1, query_len, stop]`; with few queries, a line for each packed row.
        """
        keys, queries = torch.arange(stop), torch.from_numpy(positions)[:, None, :, None]
        hidden = keys > queries
        if window is not None:
            hidden |= keys <= queries - window
        mask = torch.zeros(hidden.shape, dtype=self._cache.k.dtype)
        mask.masked_fill_(hidden, -torch.inf)
        is_packed = 1 < positions.shape[1] <= _FEW
        return mask.repeat_interleave(self._heads_per_kv, 2) if is_packed else mask

    def _attend(self, group: _Group, layer: int, queries: Tensor) -> Tensor:
        """Attend with `[rows, kv_heads, heads_per_kv, head_dim]`; the same out."""
        first, mask = group.views[self._model.window(layer)]
        keys, values = self._read(group, layer, first)  # [num_seqs, kv_heads, keys, head_dim]
        query_len, scale = group.query_len, self._model.attention_scale
        if query_len > _FEW:
            shared = (-1, self._heads_per_kv, -1, -1)
            return scaled_dot_product_attention(
                queries.permute(1, 2, 0, 3),  # [kv_heads, heads_per_kv, query_len, head_dim]
                keys[0].unsqueeze(1).expand(shared),
                values[0].unsqueeze(1).expand(shared),
                attn_mask=mask,
                is_causal=mask is None,
                scale=scale,
            ).permute(2, 0, 1, 3)
        if query_len > 1:  # a KV head's are its rows
            queries = torch.unflatten(queries, 0, (-1, query_len)).transpose(1, 2).flatten(2, 3)
        out = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scale)
        if query_len > 1:
            out = torch.unflatten(out, 2, (query_len, -1)).transpose(1, 2).flatten(0, 1)
        return out

    def _read(self, group: _Group, layer: int, first: int) -> tuple[Tensor, Tensor]:
        """Keys and values from `first` on, `[num_seqs, kv_heads, keys, head_dim]`."""
        if group.region is not None:
            return self._mirror.view(layer, group.region, group.num_seqs, first, group.stop)
        skipped = first // self._cache.block_size
        base = skipped * self._cache.block_size
        k, v = self._cache.gather(layer, group.blocks[:, skipped:])
        seen = slice(first - base, group.stop - base)
        return k[:, seen].transpose(1, 2), v[:, seen].transpose(1, 2)

    def _num_blocks(self, context_len: int) -> int:
        return -(-context_len // self._cache.block_size)
