"""What an engine is configured with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["Device", "EngineConfig", "KvType", "Numerics", "Quantization", "WeightType"]

Device = Literal["auto", "cpu", "cuda"]
WeightType = Literal["bf16", "fp32"]
KvType = Literal["auto", "fp8"]
Numerics = Literal["fast", "deterministic"]
Quantization = Literal["int8", "int4"]

_MOST = {
    "max_context": 2**31 - 1,
    "block_size": 2**20,
    "num_blocks": 2**31 - 1,
    "kv_memory_bytes": 2**50,
    "max_num_seqs": 2**20,
    "max_step_tokens": 2**20,
    "max_prefill_share": 2**20,
    "max_queued": 2**20,
    "max_queued_tokens": 2**40,
    "lookahead": 1,
    "num_draft_tokens": 64,
    "traced_steps": 2**16,
    "threads": 1024,
    "seed": 2**63 - 1,
}
_LEAST = {"lookahead": 0, "num_draft_tokens": 0, "traced_steps": 0, "seed": 0}
_OPTIONAL = (
    "max_context",
    "num_blocks",
    "kv_memory_bytes",
    "max_queued_tokens",
    "max_queue_wait",
    "lookahead",
)
_CHOICES = {
    "device": get_args(Device),
    "dtype": get_args(WeightType),
    "kv_dtype": get_args(KvType),
    "numerics": get_args(Numerics),
    "quantize": (None, *get_args(Quantization)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How one engine runs.

    Args:
        model: `tiny`, `smollm2`, the path of a GGUF file or of a folder with safetensors, or a
            model of a hub, `organisation/model`.
        max_context: Tokens that one request may have, prompt and output together; `None` takes
            the model's context, or what the pool holds where that is less.
        block_size: Tokens per KV block.
        num_blocks: KV blocks in the pool; `None` derives them from `kv_memory_bytes`.
        kv_memory_bytes: Memory for keys and values when `num_blocks` is `None`; `None`
            takes half of what is free, at most 4 GiB; on a GPU all that weights and the
            largest step leave.
        max_num_seqs: Sequences that run at once; at most half as many as a step has tokens.
        max_step_tokens: Token budget of one step, decodes and prefills together.
        max_prefill_share: Tokens of one step that a single sequence may take, so that
            a long prompt cannot keep others from starting.
        prefill_stretch: How many times as long a step with decodes may last because of
            prompt tokens in it, by what steps were seen to take; `None` sets no limit.
        max_queued: Sequences that may wait; further ones are refused.
        max_queued_tokens: Prompt tokens that may wait, likewise; `None` sets no limit.
        max_queue_wait: Seconds that a sequence may wait to start; then it is refused.
        watermark: Share of the pool that is left free when a sequence starts, so that
            those that run can grow.
        prefix_caching: Whether a prompt's beginning is looked for among computed blocks.
        static_batching: Start sequences only when none runs, as engines did before
            continuous batching; for comparison.
        lookahead: 1 schedules a step before the tokens of the one before are known; `None`
            does so on a GPU.
        num_draft_tokens: Tokens that n-gram lookup may propose for one sequence and step;
            0 turns speculation off.
        device: `auto` takes a GPU where there is one, but for `tiny`; `cuda` names AMD's too.
        dtype: Type of unquantised weights and of the KV cache. `fp32` is the exact one.
        kv_dtype: `fp8` halves the KV cache; on a GPU only.
        numerics: `fast`, or `deterministic`: a sequence's numbers do not depend on what
            else is in the batch, at some cost.
        quantize: Quantise the weights of a file that holds them unquantised.
        one_copy: Keep quantised weights only, and not a bf16 copy for large batches.
        traced_steps: Steps that are remembered for `smartclient-server explain`.
        jit: On a GPU, compile kernels when they are first launched, where they were not
            compiled beforehand; else such a launch is an error.
        threads: Threads of the CPU body.
        seed: Seed of sequences that bring none.
    """

    model: str = "tiny"
    max_context: int | None = None
    block_size: int = 16
    num_blocks: int | None = None
    kv_memory_bytes: int | None = None
    max_num_seqs: int = 64
    max_step_tokens: int = 512
    max_prefill_share: int = 256
    prefill_stretch: float | None = 1.8
    max_queued: int = 256
    max_queued_tokens: int | None = None
    max_queue_wait: float | None = None
    watermark: float = 0.01
    prefix_caching: bool = True
    static_batching: bool = False
    lookahead: int | None = None
    num_draft_tokens: int = 0
    device: Device = "auto"
    dtype: WeightType = "bf16"
    kv_dtype: KvType = "auto"
    numerics: Numerics = "fast"
    quantize: Quantization | None = None
    one_copy: bool = False
    traced_steps: int = 64
    jit: bool = False
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.model, str):
            raise ValueError(f"model must be a name or a path, not {self.model!r}")
        for name, most in _MOST.items():
            value, least = getattr(self, name), _LEAST.get(name, 1)
            if name in _OPTIONAL and value is None:
                continue
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"{name} must be an integer from {least} to {most}, not {value!r}")
        for name in ("prefix_caching", "static_batching", "one_copy", "jit"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {getattr(self, name)!r}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                listed = " or ".join(map(repr, choices))
                raise ValueError(f"{name} must be {listed}, not {getattr(self, name)!r}")
        if not _is_number(self.watermark) or not 0 <= self.watermark < 1:
            raise ValueError(f"watermark must be at least 0 and below 1, not {self.watermark!r}")
        stretch = self.prefill_stretch
        if stretch is not None and not (_is_number(stretch) and stretch > 1):
            raise ValueError(f"prefill_stretch must be a number above 1, not {stretch!r}")
        wait = self.max_queue_wait
        if wait is not None and not (_is_number(wait) and wait > 0):
            raise ValueError(f"max_queue_wait must be a number of seconds above 0, not {wait!r}")


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]  # a number here
