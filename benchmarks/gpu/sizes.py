"""How much is measured: on a GPU, and to see that everything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from server_reference.models.transformer import ModelConfig
from server_reference.public_models import PUBLIC_MODELS

__all__ = ["FULL", "TINY", "Sizes"]

_QWEN = PUBLIC_MODELS["Qwen3-0.6B"]
_LLAMA = PUBLIC_MODELS["Llama-3-8B"]
_CHECKED = ("Qwen3-0.6B", "SmolLM2-135M", "Llama-3-8B", "Qwen2-7B", "Gemma-3-1B")
"""Among them they launch every row of the manifest."""
_TINY = ModelConfig(
    num_layers=2,
    hidden_size=32,
    intermediate_size=48,
    num_q_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=96,
    max_context=128,
    rope_theta=10_000.0,
    rms_norm_eps=1e-6,
    tie_embeddings=True,
    qk_norm=True,
)
_TINY_GEMMA = replace(
    _TINY,
    qk_norm=False,
    qkv_bias=True,
    windows=(8, None),
    local_rope_theta=100.0,
    post_norms=True,
    activation="gelu_tanh",
    embedding_scale=3.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Every number that the figures depend on.

    Args:
        checked: Models with whose measures kernels are checked, by name.
        checked_prompt: Tokens of the longest prompt there, and of the longest context.
        copied: Bytes of the copy that measures bandwidth.
        product: Rows, columns and depth of the product that measures operations.
        decodes: Sequences and context of each decode that is timed.
        prompt: Tokens of the prompt that is timed.
        attending: Models with whose heads attention is timed.
        rows: Rows with which the fused kernels are timed; draws have `drawn` rows.
        step: Sequences and context of the whole decode step.
        model: What the step and the engine run.
        num_seqs: Requests of the engine, all at once.
        least: Tokens of each prompt and of each output at least, `most` at most.
        vocabulary: The prompts' tokens are below it.
        watched: Decode steps that are looked at one by one.
        checked_layers: Of the model whose logits are checked.
    """

    checked: dict[str, ModelConfig]
    checked_prompt: tuple[int, int]
    copied: int
    product: int
    decodes: tuple[tuple[int, int], ...]
    prompt: int
    attending: dict[str, ModelConfig]
    rows: int
    drawn: int
    step: tuple[int, int]
    model: ModelConfig
    num_seqs: int
    least: int
    most: int
    vocabulary: int
    max_step_tokens: int
    block_size: int
    watched: int
    checked_layers: int


FULL = Sizes(
    checked={name: PUBLIC_MODELS[name] for name in _CHECKED},
    checked_prompt=(200, 3000),
    copied=1 << 30,
    product=8192,
    decodes=((8, 8192), (64, 1024), (256, 1024)),
    prompt=8192,
    attending={"Qwen3-0.6B": _QWEN, "Llama-3-8B": _LLAMA},
    rows=8192,
    drawn=256,
    step=(256, 832),
    model=_QWEN,
    num_seqs=256,
    least=100,
    most=1024,
    vocabulary=10_001,
    max_step_tokens=16_384,
    block_size=16,
    watched=100,
    checked_layers=4,
)
TINY = Sizes(
    checked={"tiny": _TINY, "tiny-gemma": _TINY_GEMMA},
    checked_prompt=(5, 21),
    copied=1 << 12,
    product=16,
    decodes=((2, 20),),
    prompt=16,
    attending={"tiny": _TINY},
    rows=4,
    drawn=2,
    step=(2, 9),
    model=_TINY,
    num_seqs=2,
    least=3,
    most=6,
    vocabulary=96,
    max_step_tokens=16,
    block_size=4,
    watched=2,
    checked_layers=2,
)
