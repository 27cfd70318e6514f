"""Models of random weights, and what runs them on Triton kernels in the interpreter."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

import tests.server_reference.kernels.interpreted  # noqa: F401  (before triton is imported)

from server_reference.attention.backend import PagedCache  # isort: skip
from server_reference.attention.triton_attention import TritonAttention  # isort: skip
from server_reference.checkpoints.load import LoadedModel  # isort: skip
from server_reference.engine.device_texts import DeviceTexts  # isort: skip
from server_reference.engine.graphs import DecodeGraphs  # isort: skip
from server_reference.engine.parts import Body  # isort: skip
from server_reference.models.transformer import ModelConfig, Transformer, weight_shapes  # isort: skip
from tests.server_reference.engine.conftest import WordTokenizer  # isort: skip
from tests.server_reference.engine.replayed import Replayed  # isort: skip

__all__ = ["BLOCK_SIZE", "MODELS", "NUM_BLOCKS", "PLAIN", "SEQS", "SIZES", "a_body", "a_model"]

SEQS, TOKENS, BLOCK_SIZE, NUM_BLOCKS = 4, 32, 4, 64
SIZES = {
    "num_blocks": NUM_BLOCKS,
    "block_size": BLOCK_SIZE,
    "max_num_seqs": SEQS,
    "max_step_tokens": TOKENS,
    "max_prefill_share": 12,
    "numerics": "fast",
}
PLAIN = ModelConfig(
    num_layers=2,
    hidden_size=32,
    intermediate_size=48,
    num_q_heads=3,
    num_kv_heads=1,
    head_dim=16,
    vocab_size=96,
    max_context=128,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    tie_embeddings=True,
)
MODELS = {
    "plain": PLAIN,
    "bias-and-norm": replace(PLAIN, qkv_bias=True, qk_norm=True),
    "windows-and-caps": replace(
        PLAIN,
        windows=(8, None),
        local_rope_theta=100.0,
        attention_soft_cap=5.0,
        logit_soft_cap=3.0,
        post_norms=True,
        activation="gelu_tanh",
        embedding_scale=3.0,
    ),
}


def a_model(config, operations):
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: torch.randn(shape, generator=generator) * (0.3 if len(shape) > 1 else 1.0)
        for name, shape in weight_shapes(config).items()
    }
    transformer = Transformer(config, weights, operations=operations)
    return LoadedModel(transformer, WordTokenizer(), "random")


def a_body(
    transformer,
    *,
    kv_dtype=torch.float32,
    recorded=False,
    tokens=TOKENS,
    attention_type=TritonAttention,
    capture_of=lambda attention: Replayed(),
):
    config = transformer.config
    cache = PagedCache(config, num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE, dtype=kv_dtype)
    cache.k.fill_(torch.nan)
    cache.v.fill_(torch.nan)
    max_blocks = config.max_context // BLOCK_SIZE
    attention = attention_type(
        config,
        cache,
        dtype=torch.float32,
        max_num_seqs=SEQS,
        max_step_tokens=tokens,
        max_blocks=max_blocks,
        num_splits=lambda num_decodes: 3 if num_decodes < 3 else 1,
    )
    record = partial(
        DecodeGraphs,
        transformer,
        attention,
        max_blocks=max_blocks,
        capture=capture_of(attention),
    )
    texts = DeviceTexts(
        max_num_seqs=SEQS,
        max_context=config.max_context,
        num_drafts=4,
        device=transformer.device,
    )
    return Body(attention, record if recorded else None, texts)
