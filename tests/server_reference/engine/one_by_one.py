"""Attention that computes every token by itself: slow, and the same in whatever company."""

from __future__ import annotations

import torch
from torch import Tensor

from server_reference.engine.batch_builder import Batch
from server_reference.models.transformer import ModelConfig

__all__ = ["OneByOne"]


class OneByOne:
    """The plain arithmetic, for tests of all that surrounds it."""

    def __init__(self, model: ModelConfig, *, num_blocks: int, block_size: int) -> None:
        shape = (model.num_layers, num_blocks * block_size, model.num_kv_heads, model.head_dim)
        self._k, self._v = torch.full(shape, torch.nan), torch.full(shape, torch.nan)
        self._block_size = block_size
        self._slots = torch.empty(0, dtype=torch.int64)
        self._contexts: list[Tensor] = []

    def begin(self, batch: Batch) -> None:
        self._slots = torch.from_numpy(batch.slots)
        self._contexts = []
        for at, table in enumerate(torch.from_numpy(batch.block_table)):
            slots = table[:, None] * self._block_size + torch.arange(self._block_size)
            start, stop = batch.query_start[at : at + 2]
            positions = batch.positions[start:stop].tolist()
            self._contexts += [slots.flatten()[: position + 1] for position in positions]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self._k[layer, self._slots], self._v[layer, self._slots] = k, v
        return torch.stack(
            [self._attend(layer, *pair) for pair in zip(q, self._contexts, strict=True)]
        )

    def _attend(self, layer: int, q: Tensor, slots: Tensor) -> Tensor:
        keys, values = self._k[layer, slots].transpose(0, 1), self._v[layer, slots].transpose(0, 1)
        grouped = q.reshape(len(keys), -1, q.shape[-1])  # [kv_heads, group, head_dim]
        scores = grouped @ keys.transpose(1, 2) / q.shape[-1] ** 0.5
        return (scores.softmax(-1) @ values).reshape(q.shape)
