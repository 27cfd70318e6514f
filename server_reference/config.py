"""What an engine is configured with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["EngineConfig", "Numerics"]

Numerics = Literal["bf16", "fp32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How one engine runs.

    Args:
        model: `tiny`, `smollm2`, or the path of a GGUF file.
        block_size: Tokens per KV block.
        num_blocks: KV blocks in the pool; `None` derives them from `kv_memory_bytes`.
        kv_memory_bytes: Memory for keys and values when `num_blocks` is `None`.
        max_num_seqs: Sequences that run at once.
        max_step_tokens: Token budget of one step, decodes and prefills together.
        max_prefill_share: Tokens of one step that a single sequence may take, so that
            a long prompt cannot keep others from starting.
        max_queued: Sequences that may wait; further ones are refused.
        dtype: Type of weights and KV cache. `fp32` is the exact one.
        deterministic: Pad linear rows to a multiple of 16, so that a sequence's numbers
            do not depend on what else is in the batch.
        threads: Threads of the CPU body.
        seed: Seed of sequences that bring none.
    """

    model: str = "tiny"
    block_size: int = 16
    num_blocks: int | None = None
    kv_memory_bytes: int = 1 << 30
    max_num_seqs: int = 64
    max_step_tokens: int = 512
    max_prefill_share: int = 256
    max_queued: int = 256
    dtype: Numerics = "bf16"
    deterministic: bool = False
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (
            "block_size",
            "kv_memory_bytes",
            "max_num_seqs",
            "max_step_tokens",
            "max_prefill_share",
            "max_queued",
            "threads",
        ):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.num_blocks is not None and self.num_blocks < 1:
            raise ValueError(f"num_blocks must be at least 1, not {self.num_blocks}; use None")
        if self.dtype not in ("bf16", "fp32"):
            raise ValueError(f"dtype must be 'bf16' or 'fp32', not {self.dtype!r}")
