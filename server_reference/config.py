"""What an engine is configured with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["EngineConfig", "Numerics"]

Numerics = Literal["bf16", "fp32"]

_MOST = {
    "block_size": 2**20,
    "num_blocks": 2**31 - 1,
    "kv_memory_bytes": 2**50,
    "max_num_seqs": 2**20,
    "max_step_tokens": 2**20,
    "max_prefill_share": 2**20,
    "max_queued": 2**20,
    "threads": 1024,
    "seed": 2**63 - 1,
}


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
        if not isinstance(self.model, str):
            raise ValueError(f"model must be a name or a path, not {self.model!r}")
        for name, most in _MOST.items():
            value = getattr(self, name)
            if name == "num_blocks" and value is None:
                continue
            least = 0 if name == "seed" else 1
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"{name} must be an integer from {least} to {most}, not {value!r}")
        if not isinstance(self.deterministic, bool):
            raise ValueError(f"deterministic must be True or False, not {self.deterministic!r}")
        if self.dtype not in ("bf16", "fp32"):
            raise ValueError(f"dtype must be 'bf16' or 'fp32', not {self.dtype!r}")
