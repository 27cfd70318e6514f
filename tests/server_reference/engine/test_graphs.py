"""Recorded steps: what they keep, and which of them runs a batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import tests.server_reference.kernels.interpreted  # noqa: F401  (before triton is imported)

from server_reference.attention.batch import Batch  # isort: skip
from server_reference.engine.graphs import DecodeGraphs  # isort: skip
from server_reference.models.transformer import ModelConfig  # isort: skip

VOCAB_SIZE = 96
MODEL = ModelConfig(
    num_layers=1,
    hidden_size=8,
    intermediate_size=8,
    num_q_heads=1,
    num_kv_heads=1,
    head_dim=8,
    vocab_size=VOCAB_SIZE,
    max_context=16,
    rope_theta=1e4,
    rms_norm_eps=1e-5,
    tie_embeddings=True,
)


class Transformer:
    """Its logits are those of nothing."""

    config = MODEL

    def hidden(self, token_ids, positions, attend, *, newest):
        return torch.ones(len(token_ids), 1)

    def logits(self, hidden, *, out):
        return out.fill_(len(hidden))


class Attention:
    def begin(self, batch):
        self.batch = batch


class Kept:
    """Remembers what every recorded function gave, as a recorded one keeps it."""

    def __init__(self):
        self.results = []

    def __call__(self, run):
        self.results.append(run())
        return run, self.results[-1]

    def bytes(self):
        storages = {one.untyped_storage().data_ptr(): one for one in self.results}
        return sum(one.untyped_storage().nbytes() for one in storages.values())


def recorded(most, sizes=None):
    kept = Kept()
    newest = torch.zeros(most + 1, dtype=torch.int64)
    graphs = DecodeGraphs(
        Transformer(), Attention(), newest, max_blocks=4, capture=kept, sizes=sizes
    )
    return graphs, kept


def decodes(count):
    each = np.arange(count)
    return replace(
        Batch.empty(4),
        token_ids=each,
        positions=each,
        slots=each,
        num_decodes=count,
        query_start=np.arange(count + 1),
        context_lens=each + 1,
        block_table=np.zeros((count, 4), dtype=np.int64),
        rows=each,
        sampled=each,
    )


def test_more_sizes_keep_no_more_logits():
    _, one = recorded(24, sizes=[24])
    _, all_of_them = recorded(24)

    tokens = 2 * 8 * sum([1, 2, 4, 8, 16])  # greedy and random, of each size besides
    assert len(all_of_them.results) == 6 * 3
    assert all_of_them.bytes() == one.bytes() + tokens


@pytest.mark.parametrize(
    ("num_seqs", "size"),
    [
        pytest.param(1, 1, id="one"),
        pytest.param(3, 4, id="between"),
        pytest.param(8, 8, id="just-so-many"),
        pytest.param(17, 20, id="all"),
    ],
)
def test_a_batch_runs_in_the_smallest_size_that_holds_it(num_seqs, size):
    graphs, _ = recorded(20)

    assert graphs.size_of(decodes(num_seqs)) == size


def test_a_batch_with_a_prompt_runs_in_none():
    graphs, _ = recorded(20)

    assert graphs.size_of(replace(decodes(3), num_decodes=2)) is None


def test_logits_are_those_of_the_sequences_that_there_are():
    graphs, _ = recorded(20)

    logits = graphs.forward(decodes(3), 4)

    assert (len(logits), logits.unique().tolist()) == (3, [4.0])
