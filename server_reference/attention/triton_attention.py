"""Attention on a GPU: fused kernels, from buffers that stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..kernels.attention import Split, paged_attention, split_parts
from ..kernels.attention_tiles import best_splits
from ..kernels.heads import Heads
from ..kernels.launch import chip_family
from ..kernels.rotary import rotate_and_store
from ..kernels.transfer import fill
from ..models.transformer import ModelConfig
from .backend import PagedCache
from .batch import Batch

__all__ = ["TritonAttention"]


class TritonAttention:
    """Paged attention by the kernels of `kernels/attention.py`.

    What a step's tables hold is copied into buffers that are made once: a graph that was
    captured with a batch of some size replays with any batch of that size.

    Args:
        model: Shapes, windows, scale and cap of scores.
        cache: The KV blocks, on the device.
        dtype: Of queries, keys and values before they are stored.
        max_num_seqs: Sequences of a step at most.
        max_step_tokens: Tokens of a step at most.
        max_blocks: KV blocks that one sequence may have.
        num_splits: Programs that each of so many decodes is spread over; `None`: those that
            are best for the device.
        k_scale: What fp8 keys in the cache are to be multiplied with.
        v_scale: Likewise, values.
    """

    def __init__(
        self,
        model: ModelConfig,
        cache: PagedCache,
        *,
        dtype: torch.dtype,
        max_num_seqs: int,
        max_step_tokens: int,
        max_blocks: int,
        num_splits: Callable[[int], int] | None = None,
        k_scale: float = 1.0,
        v_scale: float = 1.0,
    ) -> None:
        device = cache.k.device
        self._model, self._cache = model, cache
        self._scale = model.attention_scale or model.head_dim**-0.5
        self._scales = k_scale, v_scale
        # One for all layers; what no sequence has in it are numbers.
        heads = model.num_q_heads, model.head_dim
        max_step_tokens = max(max_step_tokens, max_num_seqs)  # recorded steps are padded
        self._out = torch.zeros(max_step_tokens, *heads, dtype=dtype, device=device)
        self._slots = torch.empty(max_step_tokens, dtype=torch.int64, device=device)
        self._query_start = torch.zeros(max_num_seqs + 1, dtype=torch.int32, device=device)
        self._context_lens = torch.zeros_like(self._query_start[1:])
        self._block_table = self._query_start.new_zeros(max_num_seqs, max_blocks)
        splits = num_splits or self._best_splits(max_blocks * cache.block_size)
        self._splits = [1, *map(splits, range(1, max_num_seqs + 1))]
        most = max(number * splits for number, splits in enumerate(self._splits))
        self._parts = split_parts(most, model.num_q_heads, model.head_dim, 1, device)
        self._num_tokens = self._num_seqs = self._num_decodes = 0
        self._longest = 1

    def begin(self, batch: Batch) -> None:
        self._num_tokens, self._num_seqs = len(batch.positions), len(batch.context_lens)
        self._num_decodes = batch.num_decodes
        self._longest = int(np.diff(batch.query_start).max(initial=1))
        fill(self._slots, batch.slots)
        fill(self._query_start, batch.query_start)
        fill(self._context_lens, batch.context_lens)
        fill(self._block_table, batch.block_table)

    def __call__(self, layer: int, qkv: Tensor, heads: Heads, cos: Tensor, sin: Tensor) -> Tensor:
        k_cache, v_cache = self._cache.k[layer], self._cache.v[layer]
        k_scale, v_scale = self._scales
        q = rotate_and_store(
            qkv,
            k_cache,
            v_cache,
            slots=self._slots[: self._num_tokens],
            cos=cos,
            sin=sin,
            num_q_heads=heads.num_q_heads,
            bias=heads.bias,
            q_norm=heads.q_norm,
            k_norm=heads.k_norm,
            eps=heads.eps,
            k_scale=k_scale,
            v_scale=v_scale,
        )
        out = self._out[: len(q)]
        paged_attention(
            q,
            k_cache,
            v_cache,
            self._block_table[: self._num_seqs],
            self._query_start[: self._num_seqs + 1],
            self._context_lens[: self._num_seqs],
            out=out,
            scale=self._scale,
            num_decodes=self._num_decodes,
            max_query_len=self._longest,
            window=self._model.window(layer),
            soft_cap=self._model.attention_soft_cap,
            k_scale=k_scale,
            v_scale=v_scale,
            split=self._split(),
        )
        return out

    def _split(self) -> Split | None:
        """How decodes are spread over programs, where they alone do not fill the chip."""
        number = self._num_decodes
        splits = self._splits[number]
        if splits == 1:
            return None
        heads, width = self._parts.shape[1], self._parts.shape[3]
        return Split(self._parts[: number * splits].view(number, heads, splits, width))

    def _best_splits(self, max_context: int) -> Callable[[int], int]:
        """For contexts of any length, so that a number of decodes has one graph for all."""
        device = self._cache.k.device
        return partial(
            best_splits,
            num_kv_heads=self._model.num_kv_heads,
            max_context=max_context,
            family=chip_family(device),
            num_processors=torch.cuda.get_device_properties(device).multi_processor_count,
        )
