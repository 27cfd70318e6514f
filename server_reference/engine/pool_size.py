"""How many KV blocks an engine makes, with the arithmetic in words."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..attention.backend import token_bytes
from ..config import EngineConfig
from ..models.transformer import ModelConfig

__all__ = ["PoolSize", "pool_size"]

_SHARE = 2  # of what is free, one part in so many
_MOST_BYTES = 4 << 30
_MIRROR_SHARE = 4
_MOST_MIRROR_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class PoolSize:
    """How large the pool and the mirror are, how long a request, and the lines that say why."""

    num_blocks: int
    mirror_tokens: int
    max_context: int
    notes: list[str]


def pool_size(
    model: ModelConfig,
    config: EngineConfig,
    dtype: torch.dtype,
    *,
    free: int,
    is_shared: bool = True,
) -> PoolSize:
    """Share memory out between KV blocks and the mirror that decodes read on a CPU.

    `num_blocks` is taken as given, with a mirror as large as the pool beside it if there is
    room. Else the pool and its mirror share `kv_memory_bytes`, or half of what is free and
    at most 4 GiB; no more blocks are made than `max_num_seqs` whole contexts fill.

    Args:
        dtype: Of keys and values.
        free: Bytes that are free.
        is_shared: Others want of it too. Else the pool takes all, as it has no mirror.

    Raises:
        ValueError: The context is longer than the model's, a block is longer than the
            context, the pool is too small for one request, or memory does not suffice.
    """
    token, size = token_bytes(model, dtype), config.block_size
    context = config.max_context or model.max_context
    block, whole = token * size, -(-context // size)
    needs = _needs(model, dtype, size, context)
    _check(context, size, model.max_context, needs)
    has_mirror = is_shared and config.numerics == "fast" and model.attention_soft_cap is None
    most_mirror = _MOST_MIRROR_BYTES if has_mirror else 0
    usual = min(free // _SHARE, _MOST_BYTES) if is_shared else free
    num_blocks, mirror, source = _split(config, block, whole, free, usual, most_mirror)
    held, advice = num_blocks * size, _advice(config, block * whole, whole, most_mirror)
    if held < (config.max_context or 2):
        lower = f", or lower max_context to {held:,}" if config.max_context and held > 1 else ""
        raise ValueError(
            f"{source} holds {num_blocks:,} KV blocks, for {held:,} tokens, which is too little "
            f"for one request: {needs}; {advice}{lower}"
        )
    if num_blocks * block > free:
        raise ValueError(
            f"{num_blocks:,} KV blocks ({source}) of {block:,} bytes are more than the {free:,} "
            f"free bytes of memory here; lower num_blocks, kv_memory_bytes or max_num_seqs"
        )
    mirror_tokens = min(mirror, free - num_blocks * block) // token
    shorter = f": no more than {held:,} tokens of it fit in; {advice}" if held < context else ""
    notes = [
        f"KV blocks: {needs}{shorter}",
        f"{source}: {num_blocks:,} blocks for {held:,} tokens, "
        f"{num_blocks * block:,} bytes, and a mirror of {mirror_tokens:,} tokens, "
        f"{mirror_tokens * token:,} bytes, of {free:,} bytes free",
    ]
    return PoolSize(num_blocks, mirror_tokens, min(context, held), notes)


def _needs(model: ModelConfig, dtype: torch.dtype, size: int, context: int) -> str:
    block = token_bytes(model, dtype) * size
    return (
        f"one of {size:,} tokens takes {block:,} bytes (2 x {model.num_layers} layers x "
        f"{model.num_kv_heads} heads x {model.head_dim} x {dtype.itemsize} bytes each); a request "
        f"of the whole context of {context:,} tokens needs {-(-context // size):,}"
    )


def _check(context: int, size: int, most: int, needs: str) -> None:
    if context > most:
        raise ValueError(
            f"max_context={context:,} is more than the {most:,} tokens that the model was made "
            f"for; lower it"
        )
    if size > context:
        raise ValueError(
            f"block_size={size:,} is more than the context, so that no request can fill a KV "
            f"block: {needs}; lower block_size"
        )


def _split(
    config: EngineConfig, block: int, whole: int, free: int, usual: int, most_mirror: int
) -> tuple[int, int, str]:
    """Blocks, bytes of the mirror, and what they follow from."""
    if config.num_blocks is not None:
        pool = config.num_blocks * block
        source = f"num_blocks={config.num_blocks:,}"
        return config.num_blocks, min(pool, max(0, free - pool) // _SHARE, most_mirror), source
    if config.kv_memory_bytes is not None:
        total, source = config.kv_memory_bytes, f"kv_memory_bytes={config.kv_memory_bytes:,}"
    else:
        total, share = usual, f"half of what is free, at most {_MOST_BYTES:,}"
        source = f"{total:,} bytes ({'all that is free' if usual == free else share})"
    mirror = min(total // _MIRROR_SHARE, most_mirror)
    return min((total - mirror) // block, config.max_num_seqs * whole), mirror, source


def _advice(config: EngineConfig, whole_bytes: int, whole: int, most_mirror: int) -> str:
    """What to set so that one request of the whole context fits in."""
    if config.num_blocks is not None:
        return f"raise num_blocks to {whole:,}"
    total = whole_bytes + min(-(-whole_bytes // (_MIRROR_SHARE - 1)), most_mirror)
    return f"raise kv_memory_bytes to {total:,}"
