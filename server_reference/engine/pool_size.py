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
    needs = (
        f"one of {size:,} tokens takes {block:,} bytes (2 x {model.num_layers} layers x "
        f"{model.num_kv_heads} heads x {model.head_dim} x {dtype.itemsize} bytes each); a request "
        f"of the whole context of {model.max_context:,} tokens needs {whole:,}"
    )
    if size > model.max_context:
        raise ValueError(
            f"block_size={size:,} is more than the model's context, so that no request can fill a "
            f"KV block: {needs}; lower block_size"
        )
    has_mirror = config.numerics == "fast" and model.attention_soft_cap is None
    num_blocks, mirror, source = _split(config, block, whole, free, has_mirror)
    if num_blocks < 1 or num_blocks * size < 2:
        raise ValueError(
            f"{source} holds no KV block for one request: {needs}; raise kv_memory_bytes or "
            f"num_blocks, or lower block_size"
        )
    if num_blocks * block > free:
        raise ValueError(
            f"{num_blocks:,} KV blocks ({source}) of {block:,} bytes are more than the {free:,} "
            f"free bytes of memory here; lower num_blocks, kv_memory_bytes or max_num_seqs"
        )
    mirror_tokens = min(mirror, free - num_blocks * block) // token
    notes = [
        f"KV blocks: {needs}",
        f"{source}: {num_blocks:,} blocks for {num_blocks * size:,} tokens, "
        f"{num_blocks * block:,} bytes, and a mirror of {mirror_tokens:,} tokens, "
        f"{mirror_tokens * token:,} bytes, of {free:,} bytes free",
    ]
    return PoolSize(num_blocks, mirror_tokens, notes)


def _split(
    config: EngineConfig, block: int, whole: int, free: int, has_mirror: bool
) -> tuple[int, int, str]:
    """Blocks, bytes of the mirror, and what they follow from."""
    most = _MOST_MIRROR_BYTES if has_mirror else 0
    if config.num_blocks is not None:
        pool = config.num_blocks * block
        source = f"num_blocks={config.num_blocks:,}"
        return config.num_blocks, min(pool, max(0, free - pool) // _SHARE, most), source
    if config.kv_memory_bytes is not None:
        total, source = config.kv_memory_bytes, f"kv_memory_bytes={config.kv_memory_bytes:,}"
    else:
        total = min(free // _SHARE, _MOST_BYTES)
        source = f"{total:,} bytes (half of what is free, at most {_MOST_BYTES:,})"
    mirror = min(total // _MIRROR_SHARE, most)
    return min((total - mirror) // block, config.max_num_seqs * whole), mirror, source
