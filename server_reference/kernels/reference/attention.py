"""Attention over paged keys and values, one query head of one token after the other."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["paged_attention"]


def paged_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    query_start: Tensor,
    context_lens: Tensor,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> Tensor:
    """What `kernels.attention.paged_attention` computes, in float64.

    Args: As there, but for how it is done.

    Returns:
        `[num_tokens, num_q_heads, head_dim]`; rows of no sequence are 0.
    """
    out = torch.zeros(q.shape, dtype=torch.float64)
    group = q.shape[1] // k_cache.shape[2]
    for seq, context_len in enumerate(context_lens.tolist()):
        start, stop = query_start[seq : seq + 2].tolist()
        k = _gather(k_cache, block_table[seq], context_len) * k_scale
        v = _gather(v_cache, block_table[seq], context_len) * v_scale
        for token in range(start, stop):
            seen = slice(0, context_len - (stop - token) + 1)
            if window is not None:
                seen = slice(max(0, seen.stop - window), seen.stop)
            for head in range(q.shape[1]):
                scores = k[seen, head // group] @ q[token, head].double() * scale
                if soft_cap is not None:
                    scores = soft_cap * torch.tanh(scores / soft_cap)
                out[token, head] = torch.softmax(scores, 0) @ v[seen, head // group]
    return out


def _gather(cache: Tensor, blocks: Tensor, context_len: int) -> Tensor:
    """`[context_len, num_kv_heads, head_dim]` in float64."""
    block_size = cache.shape[1]
    slots = [
        int(blocks[at // block_size]) * block_size + at % block_size for at in range(context_len)
    ]
    return cache.flatten(0, 1)[slots].double()
