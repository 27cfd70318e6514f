"""An engine whose model runs on Triton kernels, in the interpreter, beside one on PyTorch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from tests.server_reference.kernels.interpreted import shuffled

from server_reference.attention.backend import PagedCache  # isort: skip
from server_reference.attention.triton_attention import TritonAttention  # isort: skip
from server_reference.engine.graphs import DecodeGraphs, again  # isort: skip
from server_reference.kernels import fused  # isort: skip
from server_reference.models.transformer import Transformer  # isort: skip

SEQS, TOKENS = 8, 64


def on_triton(model):
    transformer = model.transformer
    weights = transformer.weights
    return replace(model, transformer=Transformer(transformer.config, weights, operations=fused))


@pytest.fixture
def run(an_engine, a_request, words):
    """Runs requests through an engine; with `recorded`, decodes are replayed."""

    def run(requests, *, triton, recorded=False, **config):
        model, record, attention = words(), None, None
        if triton:
            model = on_triton(model)
            cache = PagedCache(
                model.transformer.config, num_blocks=64, block_size=16, dtype=torch.float32
            )
            cache.k.fill_(torch.nan)
            cache.v.fill_(torch.nan)
            attention = TritonAttention(
                model.transformer.config,
                cache,
                max_num_seqs=SEQS,
                max_step_tokens=TOKENS,
                max_blocks=64,
                num_processors=12,
            )
            if recorded:
                record = partial(
                    DecodeGraphs, model.transformer, attention, max_blocks=64, capture=again
                )
        sizes = {"max_num_seqs": SEQS, "max_step_tokens": TOKENS, "max_prefill_share": 24}
        engine, recorder = an_engine(
            model, attention=attention, record=record, numerics="fast", **sizes, **config
        )
        for request in requests:
            engine.add(request)
        recorder.run(engine)
        return recorder

    return run


@pytest.mark.parametrize("recorded", [False, True], ids=["launched", "recorded"])
def test_both_backends_draw_the_same_tokens(run, a_request, recorded):
    requests = [
        a_request("a", 20, max_tokens=16),
        a_request("b", 5, max_tokens=16, temperature=0.8, top_p=0.9, seed=7),
        a_request("c", 33, max_tokens=9, temperature=1.0, top_k=5, seed=3),
        a_request("d", 1, max_tokens=12, temperature=1.2, min_p=0.05, seed=1),
    ]

    ours = run(requests, triton=True, recorded=recorded)
    theirs = run(requests, triton=False)

    assert {id: ours.tokens(id) for id in "abcd"} == {id: theirs.tokens(id) for id in "abcd"}
