"""What an engine is made of: by its configuration, and the device that its model is on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from ..attention.backend import AttentionBackend, PagedCache
from ..attention.cpu_attention import cpu_attention
from ..config import EngineConfig
from ..kv.block_pool import BlockPool
from ..kv.memory import free_memory
from ..models.numerics import kv_dtype_of
from ..models.transformer import Transformer
from .batch_builder import BatchBuilder
from .pacing import PrefillPace
from .pool_size import PoolSize, pool_size
from .scheduler import Scheduler
from .speculation import HostTexts, Texts

if TYPE_CHECKING:
    from .graphs import DecodeGraphs  # which needs triton

__all__ = ["Body", "body_of", "builder", "looks_ahead", "memory", "pace", "scheduler"]


class Body(NamedTuple):
    """What runs steps on a device.

    Args:
        attention: Owns the KV cache.
        record: Records steps, given the tensor that has what each row drew last.
        texts: Looks up what sequences hold.
    """

    attention: AttentionBackend
    record: Callable[[Tensor], DecodeGraphs] | None
    texts: Texts


def looks_ahead(config: EngineConfig, model: Transformer) -> bool:
    """Whether steps are scheduled before the tokens of the one before are known."""
    asked = config.lookahead
    return model.device.type != "cpu" if asked is None else asked == 1


def pace(config: EngineConfig) -> PrefillPace | None:
    """What bounds the prompt tokens beside decodes, if anything does."""
    stretch = config.prefill_stretch
    return None if stretch is None else PrefillPace(stretch=stretch)


def scheduler(config: EngineConfig, pool: PoolSize) -> Scheduler:
    """The scheduler that `config` asks for."""
    return Scheduler(
        BlockPool(pool.num_blocks),
        block_size=config.block_size,
        capacity=pool.max_context,
        max_num_seqs=config.max_num_seqs,
        max_step_tokens=config.max_step_tokens,
        max_prefill_share=config.max_prefill_share,
        watermark=config.watermark,
        prefix_caching=config.prefix_caching,
        static_batching=config.static_batching,
        traced_steps=config.traced_steps,
    )


def builder(config: EngineConfig, pool: PoolSize) -> BatchBuilder:
    """What lays out its steps."""
    return BatchBuilder(
        max_num_seqs=config.max_num_seqs,
        max_blocks=-(-pool.max_context // config.block_size),
        block_size=config.block_size,
    )


def memory(model: Transformer, config: EngineConfig) -> PoolSize:
    """How it is shared out on the model's device."""
    dtype = kv_dtype_of(config, model.dtype)
    if model.device.type == "cpu":
        return pool_size(model.config, config, dtype, free=free_memory())
    from .gpu import free_memory as left

    return pool_size(model.config, config, dtype, free=left(model, config), is_shared=False)


def body_of(model: Transformer, config: EngineConfig, pool: PoolSize) -> Body:
    """The body on the model's device."""
    cache = PagedCache(
        model.config,
        num_blocks=pool.num_blocks,
        block_size=config.block_size,
        dtype=kv_dtype_of(config, model.dtype),
        device=model.device,
    )
    if model.device.type == "cpu":
        mirror = pool.mirror_tokens
        attention = cpu_attention(config.numerics, model.config, cache, mirror_tokens=mirror)
        return Body(attention, None, HostTexts())
    from . import gpu

    attention, record = gpu.body_of(model, config, cache, max_context=pool.max_context)
    return Body(attention, record, gpu.texts_of(model, config, max_context=pool.max_context))
