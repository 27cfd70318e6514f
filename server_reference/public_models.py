"""The measures of public models, for what is computed without their files.

Source:
    Each model's `config.json` on huggingface.co, read as `checkpoints/families.py` reads it.
"""

from __future__ import annotations

import math

from .models.transformer import ModelConfig

__all__ = ["PUBLIC_MODELS"]

PUBLIC_MODELS = {
    # HuggingFaceTB/SmolLM2-135M-Instruct
    "SmolLM2-135M": ModelConfig(
        num_layers=30,
        hidden_size=576,
        intermediate_size=1536,
        num_q_heads=9,
        num_kv_heads=3,
        head_dim=64,
        vocab_size=49_152,
        max_context=8192,
        rope_theta=100_000.0,
        rms_norm_eps=1e-5,
        tie_embeddings=True,
    ),
    # meta-llama/Meta-Llama-3-8B-Instruct
    "Llama-3-8B": ModelConfig(
        num_layers=32,
        hidden_size=4096,
        intermediate_size=14_336,
        num_q_heads=32,
        num_kv_heads=8,
        head_dim=128,
        vocab_size=128_256,
        max_context=8192,
        rope_theta=500_000.0,
        rms_norm_eps=1e-5,
        tie_embeddings=False,
    ),
    # mistralai/Mistral-7B-Instruct-v0.3, which sees all of its context; v0.1 had a window
    "Mistral-7B": ModelConfig(
        num_layers=32,
        hidden_size=4096,
        intermediate_size=14_336,
        num_q_heads=32,
        num_kv_heads=8,
        head_dim=128,
        vocab_size=32_768,
        max_context=32_768,
        rope_theta=1_000_000.0,
        rms_norm_eps=1e-5,
        tie_embeddings=False,
    ),
    # Qwen/Qwen2-7B-Instruct
    "Qwen2-7B": ModelConfig(
        num_layers=28,
        hidden_size=3584,
        intermediate_size=18_944,
        num_q_heads=28,
        num_kv_heads=4,
        head_dim=128,
        vocab_size=152_064,
        max_context=32_768,
        rope_theta=1_000_000.0,
        rms_norm_eps=1e-6,
        tie_embeddings=False,
        qkv_bias=True,
    ),
    # Qwen/Qwen3-0.6B
    "Qwen3-0.6B": ModelConfig(
        num_layers=28,
        hidden_size=1024,
        intermediate_size=3072,
        num_q_heads=16,
        num_kv_heads=8,
        head_dim=128,
        vocab_size=151_936,
        max_context=40_960,
        rope_theta=1_000_000.0,
        rms_norm_eps=1e-6,
        tie_embeddings=True,
        qk_norm=True,
    ),
    # Qwen/Qwen3-8B
    "Qwen3-8B": ModelConfig(
        num_layers=36,
        hidden_size=4096,
        intermediate_size=12_288,
        num_q_heads=32,
        num_kv_heads=8,
        head_dim=128,
        vocab_size=151_936,
        max_context=40_960,
        rope_theta=1_000_000.0,
        rms_norm_eps=1e-6,
        tie_embeddings=False,
        qk_norm=True,
    ),
    # google/gemma-3-1b-it
    "Gemma-3-1B": ModelConfig(
        num_layers=26,
        hidden_size=1152,
        intermediate_size=6912,
        num_q_heads=4,
        num_kv_heads=1,
        head_dim=256,
        vocab_size=262_144,
        max_context=32_768,
        rope_theta=1_000_000.0,
        rms_norm_eps=1e-6,
        tie_embeddings=True,
        windows=tuple(512 if (at + 1) % 6 else None for at in range(26)),
        attention_scale=256**-0.5,
        local_rope_theta=10_000.0,
        qk_norm=True,
        post_norms=True,
        norm_offset=1.0,
        embedding_scale=math.sqrt(1152),
        activation="gelu_tanh",
    ),
}
"""By name; the families that `checkpoints/families.py` knows, in sizes that people run."""
