"""What is run before an engine starts on a GPU, to see what memory it takes."""

from __future__ import annotations

import pytest
import torch

from tests.server_reference.kernels.interpreted import launched

from server_reference.attention.backend import PagedCache  # isort: skip
from server_reference.attention.triton_attention import TritonAttention  # isort: skip
from server_reference.config import EngineConfig  # isort: skip
from server_reference.engine.gpu import largest_batch, largest_step  # isort: skip
from server_reference.kernels import fused  # isort: skip
from server_reference.models.transformer import ModelConfig, Transformer, weight_shapes  # isort: skip

MODEL = ModelConfig(
    num_layers=1,
    hidden_size=16,
    intermediate_size=16,
    num_q_heads=1,
    num_kv_heads=1,
    head_dim=16,
    vocab_size=70,
    max_context=64,
    rope_theta=1e4,
    rms_norm_eps=1e-5,
    tie_embeddings=True,
)


@pytest.mark.parametrize(
    ("num_seqs", "max_context", "num_tokens"),
    [
        pytest.param(64, 2048, 512, id="even"),
        pytest.param(3, 2048, 512, id="uneven"),
        pytest.param(1, 100, 100, id="no-longer-than-a-context"),
        pytest.param(5, 7, 35, id="nor-several"),
        pytest.param(700, 64, 512, id="some-of-none"),
    ],
)
def test_the_largest_step_has_all_tokens_that_one_may_have(num_seqs, max_context, num_tokens):
    config = EngineConfig(max_num_seqs=num_seqs, max_step_tokens=512)

    batch = largest_batch(config, max_context)

    assert len(batch.positions) == batch.query_start[-1] == num_tokens
    assert len(batch.context_lens) == num_seqs
    assert 0 <= batch.context_lens.min() <= batch.context_lens.max() <= max_context


def test_it_launches_the_kernels_of_rules_and_draws_for_drafts():
    generator = torch.Generator().manual_seed(0)
    weights = {
        name: torch.randn(shape, generator=generator)
        for name, shape in weight_shapes(MODEL).items()
    }
    model = Transformer(MODEL, weights, operations=fused)
    config = EngineConfig(max_num_seqs=2, max_step_tokens=9, num_draft_tokens=2)
    cache = PagedCache(MODEL, num_blocks=1, block_size=16, dtype=torch.float32)
    cache.k.zero_()
    cache.v.zero_()
    attention = TritonAttention(
        MODEL,
        cache,
        dtype=torch.float32,
        max_num_seqs=2,
        max_step_tokens=9,
        max_blocks=4,
        num_splits=lambda _: 1,
    )
    launched.clear()

    sampled = largest_step(model, attention, config, largest_batch(config, MODEL.max_context))

    assert len(sampled.tokens) == 2 * (1 + 2)
    assert (sampled.tokens >= 0).all()
    kernels = {"count", "penalty", "bias", "mask"}
    assert launched >= {f"sampling_rules:_{name}_kernel" for name in kernels}
