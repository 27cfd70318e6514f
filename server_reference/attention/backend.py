"""Attention over paged keys and values: the seam between a model and a device.

A model calls its backend once per layer and knows nothing of blocks, batches or masks.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.transformer import Attend, ModelConfig
from .batch import Batch

__all__ = ["AttentionBackend", "PagedCache", "token_bytes"]


class AttentionBackend(Attend, Protocol):
    """Owns the KV cache, and attends from a batch's tokens to their contexts."""

    def begin(self, batch: Batch) -> None:
        """Prepare for the layers of one step: whatever does not depend on the layer."""


def token_bytes(model: ModelConfig, dtype: torch.dtype) -> int:
    """Memory of one token: its keys and values in all layers."""
    return 2 * model.num_layers * model.num_kv_heads * model.head_dim * dtype.itemsize


class PagedCache:
    """The KV blocks of all layers.

    Where `store` writes, a sequence never reads what another left in a block: a block is
    cleared when its first slot is written, so that a NaN stays with the sequence that made it.

    Attributes:
        k: Keys, `[num_layers, num_blocks, block_size, num_kv_heads, head_dim]`.
        v: Values, like `k`.
    """

    def __init__(
        self,
        model: ModelConfig,
        *,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device | None = None,
    ) -> None:
        shape = (model.num_layers, num_blocks, block_size, model.num_kv_heads, model.head_dim)
        # On a CPU memory is taken when first touched.
        self.k = torch.empty(shape, dtype=dtype, device=device)
        self.v = torch.empty(shape, dtype=dtype, device=device)
        self.block_size = block_size
        self._by_slot = list(zip(self.k.flatten(1, 2), self.v.flatten(1, 2), strict=True))
        self._slots = torch.empty(0, dtype=torch.int64)

    def begin(self, batch: Batch) -> None:
        """Take the slots that `store` writes in every layer."""
        self._slots = torch.from_numpy(batch.slots)
        fresh = batch.slots[batch.positions % self.block_size == 0] // self.block_size
        if fresh.size:
            self.k.index_fill_(1, torch.from_numpy(fresh), 0)
            self.v.index_fill_(1, torch.from_numpy(fresh), 0)

    def store(self, layer: int, k: Tensor, v: Tensor) -> None:
        keys, values = self._by_slot[layer]
        keys.index_copy_(0, self._slots, k)
        values.index_copy_(0, self._slots, v)

    def gather(self, layer: int, blocks: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Keys and values in blocks `[num_seqs, num_blocks]`, copied into one piece.

        Each is `[num_seqs, num_blocks * block_size, num_kv_heads, head_dim]`.
        """
        shape = (len(blocks), -1, *self.k.shape[3:])
        chosen = torch.from_numpy(blocks.reshape(-1))
        k, v = (
            cache[layer].flatten(1).index_select(0, chosen).view(shape)
            for cache in (self.k, self.v)
        )
        return k, v
