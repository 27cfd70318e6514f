"""Attention over plain growing tensors: one sequence, no paging."""

from __future__ import annotations

import torch
from torch import Tensor

from server_reference.kernels.heads import Heads
from server_reference.models.transformer import ModelConfig, Transformer

__all__ = ["DenseAttend", "all_logits", "greedy"]


class DenseAttend:
    """Keeps every key and value of one sequence, and attends causally.

    Args:
        config: Whose windows, scale and cap are kept to; `None` for a plain model.
    """

    def __init__(self, config: ModelConfig | None = None) -> None:
        self._config = config
        self._keys: dict[int, Tensor] = {}
        self._values: dict[int, Tensor] = {}

    def __call__(self, layer: int, qkv: Tensor, heads: Heads, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = heads.split(qkv, cos, sin)
        keys = torch.cat((self._keys.get(layer, k[:0]), k))
        values = torch.cat((self._values.get(layer, v[:0]), v))
        self._keys[layer], self._values[layer] = keys, values
        group = q.shape[1] // k.shape[1]
        scores = torch.einsum("qhd,khd->hqk", q, keys.repeat_interleave(group, 1))
        config = self._config
        scale = config.attention_scale if config else None
        scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
        if config and config.attention_soft_cap:
            scores = torch.tanh(scores / config.attention_soft_cap) * config.attention_soft_cap
        own = torch.arange(len(keys) - len(q), len(keys)).unsqueeze(1)
        others = torch.arange(len(keys))
        ahead = others > own
        window = config.window(layer) if config else None
        if window is not None:
            ahead |= others <= own - window
        weights = scores.masked_fill(ahead, float("-inf")).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, values.repeat_interleave(group, 1))


def all_logits(transformer: Transformer, token_ids: list[int]) -> Tensor:
    """Logits at every position, from one pass."""
    ids = torch.tensor(token_ids)
    hidden = transformer.hidden(ids, torch.arange(len(ids)), DenseAttend(transformer.config))
    return transformer.logits(hidden)


def greedy(transformer: Transformer, prompt: list[int], max_tokens: int) -> list[int]:
    """The likeliest continuation, token by token, never ended."""
    output: list[int] = []
    attend, new, position = DenseAttend(transformer.config), prompt, 0
    while len(output) < max_tokens:
        positions = torch.arange(position, position + len(new))
        hidden = transformer.hidden(torch.tensor(new), positions, attend)
        position += len(new)
        new = [int(transformer.logits(hidden[-1:]).argmax())]
        output += new
    return output
