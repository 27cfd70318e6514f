"""How many KV blocks an engine makes, with the arithmetic in words."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..config import EngineConfig
from ..models.transformer import ModelConfig
from .attention_backends import token_bytes

__all__ = ["PoolSize", "pool_size"]

_SHARE = 2  # of what is free, one part in so many
_MOST_BYTES = 4 << 30
_MIRROR_SHARE = 4
_MOST_MIRROR_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How large the pool and the mirror are, and the lines that say why."""

    num_blocks: int
    mirror_tokens: int
    notes: list[str]


def pool_size(
    model: ModelConfig, config: EngineConfig, dtype: torch.dtype, *, free: int
) -> PoolSize:
    """Share memory out between KV blocks and the mirror that decodes read on a CPU.

    `num_blocks` is taken as given, with a mirror as large as the pool beside it if there is
    room. Else the pool and its mirror share `kv_memory_bytes`, or half of what is free and
    at most 4 GiB; no more blocks are made than `max_num_seqs` whole contexts fill.

    Args:
        free: Bytes that are free.

    Raises:
        ValueError: A block is longer than the context, the pool is too small for one
            request, or memory does not suffice.
    """
    token, size = token_bytes(model, dtype), config.block_size
    block, whole = token * size, -(-model.max_context // size)
    one_block = (
        f"one of {size} tokens takes {block:,} bytes (2 x {model.num_layers} layers x "
        f"{model.num_kv_heads} heads x {model.head_dim} x {dtype.itemsize} bytes each)"
    )
    request = f"a request of the whole context of {model.max_context:,} tokens needs {whole:,}"
    if size > model.max_context:
        raise ValueError(
            f"block_size={size:,} is more than the model's context of {model.max_context:,} "
            f"tokens: {one_block}, and no request can fill it; lower block_size"
        )
    has_mirror = config.numerics == "fast" and model.attention_soft_cap is None
    if config.num_blocks is not None:
        num_blocks, source = config.num_blocks, f"num_blocks={config.num_blocks:,}"
        mirror = min(num_blocks * block, max(0, free - num_blocks * block) // _SHARE)
    else:
        total, source = _total(config, free)
        mirror = total // _MIRROR_SHARE if has_mirror else 0
        usable = config.max_num_seqs * whole
        num_blocks = min((total - min(mirror, _MOST_MIRROR_BYTES)) // block, usable)
    if num_blocks < 1 or num_blocks * size < 2:
        raise ValueError(
            f"{source} holds no KV block for one request: {one_block}; {request}; raise "
            f"kv_memory_bytes or num_blocks, or lower block_size"
        )
    if num_blocks * block > free:
        raise ValueError(
            f"{num_blocks:,} KV blocks ({source}) of {block:,} bytes are more than the {free:,} "
            f"free bytes of memory here; lower num_blocks, kv_memory_bytes or max_num_seqs"
        )
    mirror_tokens = min(mirror, _MOST_MIRROR_BYTES) // token if has_mirror else 0
    notes = [
        f"KV blocks: {one_block}; {request}",
        f"{source}: {num_blocks:,} blocks for {num_blocks * size:,} tokens, "
        f"{num_blocks * block:,} bytes, and a mirror of {mirror_tokens:,} tokens, "
        f"{mirror_tokens * token:,} bytes, of {free:,} bytes free",
    ]
    return PoolSize(num_blocks, mirror_tokens, notes)


def _total(config: EngineConfig, free: int) -> tuple[int, str]:
    """Bytes for blocks and mirror, and where they come from."""
    if config.kv_memory_bytes is not None:
        return config.kv_memory_bytes, f"kv_memory_bytes={config.kv_memory_bytes:,}"
    total = min(free // _SHARE, _MOST_BYTES)
    return total, f"{total:,} bytes (half of what is free, at most {_MOST_BYTES:,})"
