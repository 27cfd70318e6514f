"""Queries, keys and values after their norm, turn and way into the cache, in float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["rotate_and_store"]


def rotate_and_store(
    qkv: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    *,
    slots: Tensor,
    cos: Tensor,
    sin: Tensor,
    num_q_heads: int,
    bias: Tensor | None = None,
    q_norm: Tensor | None = None,
    k_norm: Tensor | None = None,
    eps: float = 0.0,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> Tensor:
    """The twin of `kernels.rotary.rotate_and_store`; the caches change here too."""
    num_kv_heads, head_dim = k_cache.shape[2:]
    rows = qkv.double() if bias is None else qkv.double() + bias.double()
    heads = rows.view(len(qkv), -1, head_dim)
    q, v = heads[:, :num_q_heads], heads[:, num_q_heads + num_kv_heads :]
    k = heads[:, num_q_heads : num_q_heads + num_kv_heads]
    angles = cos.double(), sin.double()
    q = _turned(_normalised(q, q_norm, eps), *angles)
    k = _turned(_normalised(k, k_norm, eps), *angles)
    for cache, values, scale in ((k_cache, k, k_scale), (v_cache, v, v_scale)):
        for token, slot in enumerate(slots.tolist()):
            if slot >= 0:
                cache.view(-1, num_kv_heads, head_dim)[slot] = _stored(values[token] / scale, cache)
    return q.to(qkv.dtype)


def _normalised(heads: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    if weight is None:
        return heads
    size: Tensor = (heads.square().mean(-1, keepdim=True) + eps).sqrt()
    return heads / size * (weight.double() / math.sqrt(len(weight)))


def _turned(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each pair (i, i + head_dim / 2); the sine of its first place is negated."""
    return heads * cos + heads.roll(heads.shape[-1] // 2, -1) * sin


def _stored(values: Tensor, cache: Tensor) -> Tensor:
    if cache.dtype == torch.float8_e4m3fn:
        values = values.clamp(-448.0, 448.0).float()
    return values.to(cache.dtype)
