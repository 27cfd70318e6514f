"""Paged attention on a CPU against attention written plainly."""

from __future__ import annotations

import pytest
import torch

from server_reference.core import SamplingParams, Sequence
from server_reference.engine.attention_backends import TorchAttention, block_bytes
from server_reference.engine.batch_builder import BatchBuilder
from server_reference.engine.scheduler import Scheduled, Step
from server_reference.models.transformer import ModelConfig

BLOCK_SIZE = 4
CONFIG = ModelConfig(
    num_layers=2,
    hidden_size=24,
    intermediate_size=8,
    num_q_heads=6,
    num_kv_heads=2,
    head_dim=4,
    vocab_size=8,
    max_context=256,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    tie_embeddings=False,
)


def an_attention(num_blocks=96):
    return TorchAttention(CONFIG, num_blocks=num_blocks, block_size=BLOCK_SIZE, dtype=torch.float32)


def random_qkv(num_tokens, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(num_tokens, 10, CONFIG.head_dim, generator=generator)
    return rows[:, :6], rows[:, 6:8], rows[:, 8:]


def a_batch(*chunks):
    """A step of `(block table, start, num_tokens)`."""
    entries = []
    for row, (table, start, num_tokens) in enumerate(chunks):
        params = SamplingParams(max_tokens=1)
        prompt = [0] * (start + num_tokens)
        sequence = Sequence(id="", tenant="", prompt_token_ids=prompt, params=params, arrival=0)
        sequence.block_table, sequence.row = table, row
        entries.append(Scheduled(sequence, start, num_tokens))
    builder = BatchBuilder(max_num_seqs=len(chunks), max_blocks=64, block_size=BLOCK_SIZE)
    return builder.build(Step(entries))


def attend(attention, batch, qkv, layer=1):
    attention.begin(batch)
    return attention(layer, *qkv)


def both(one, two, rows_of_one, rows_of_two):
    return [torch.cat([a[rows_of_one], b[rows_of_two]]) for a, b in zip(one, two, strict=True)]


def plainly(q, k, v):
    """Causal attention over one whole sequence, head by head."""
    heads = []
    for head in range(q.shape[1]):
        scores = q[:, head] @ k[:, head // 3].T * CONFIG.head_dim**-0.5
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        heads.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v[:, head // 3])
    return torch.stack(heads, dim=1)


@pytest.mark.parametrize(
    "cuts",
    [
        pytest.param([21], id="whole"),
        pytest.param([8, 21], id="two-chunks-at-a-block"),
        pytest.param([3, 10, 21], id="chunks-within-blocks"),
        pytest.param([20, 21], id="prefill-then-decode"),
        pytest.param(list(range(1, 22)), id="token-by-token"),
    ],
)
def test_a_sequence_in_any_chunks_agrees_with_plain_attention(cuts):
    attention, qkv, table = an_attention(), random_qkv(21), [9, 4, 30, 5, 17, 2]

    parts = [
        attend(attention, a_batch((table, start, stop - start)), [x[start:stop] for x in qkv])
        for start, stop in zip([0, *cuts], cuts, strict=False)
    ]

    torch.testing.assert_close(torch.cat(parts), plainly(*qkv), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "lens",
    [
        pytest.param([7, 7, 7], id="equal-lengths"),
        pytest.param([1, 4, 5, 16], id="ragged"),
        pytest.param([1, 90, 17], id="far-apart"),
    ],
)
def test_decodes_of_several_sequences_agree_with_each_alone(lens):
    attention = an_attention()
    tables = [list(range(24 * at, 24 * at + -(-n // BLOCK_SIZE))) for at, n in enumerate(lens)]
    sequences = [random_qkv(n, seed=at) for at, n in enumerate(lens)]
    for table, qkv, n in zip(tables, sequences, lens, strict=True):
        if n > 1:
            attend(attention, a_batch((table, 0, n - 1)), [x[:-1] for x in qkv])

    batch = a_batch(*((table, n - 1, 1) for table, n in zip(tables, lens, strict=True)))
    last = [torch.cat([qkv[part][-1:] for qkv in sequences]) for part in range(3)]
    out = attend(attention, batch, last)

    expected = torch.cat([plainly(*qkv)[-1:] for qkv in sequences])
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


def test_decodes_and_a_chunk_share_a_step():
    attention, one, two = an_attention(), random_qkv(6), random_qkv(9, seed=1)
    attend(attention, a_batch(([0, 1], 0, 5)), [x[:5] for x in one])

    batch = a_batch(([0, 1], 5, 1), ([2, 3, 4], 0, 9))
    out = attend(attention, batch, both(one, two, slice(5, 6), slice(9)))

    expected = torch.cat([plainly(*one)[5:], plainly(*two)])
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


def test_a_layer_reads_its_own_keys_only():
    attention, qkv = an_attention(), random_qkv(5)
    attend(attention, a_batch(([0, 1], 0, 4)), [x[:4] for x in qkv], layer=0)
    attention(1, *(2 * x[:4] for x in qkv))

    out = attend(attention, a_batch(([0, 1], 4, 1)), [x[4:] for x in qkv], layer=0)

    torch.testing.assert_close(out, plainly(*qkv)[4:], atol=1e-5, rtol=0)


def test_what_another_sequence_left_in_a_block_is_never_read():
    """A masked NaN is still a NaN once it is multiplied by zero."""
    attention, one, two = an_attention(), random_qkv(6), random_qkv(8, seed=1)
    attention.k_cache.fill_(torch.nan)
    attention.v_cache.fill_(torch.nan)
    attend(attention, a_batch(([0, 1], 0, 5), ([2, 3], 0, 7)), both(one, two, slice(5), slice(7)))

    batch = a_batch(([0, 1], 5, 1), ([2, 3], 7, 1))
    out = attend(attention, batch, both(one, two, slice(5, 6), slice(7, 8)))

    expected = torch.cat([plainly(*one)[5:], plainly(*two)[7:]])
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


def test_the_memory_of_a_block_is_that_of_its_keys_and_values():
    attention = an_attention(num_blocks=10)

    size = block_bytes(CONFIG, block_size=BLOCK_SIZE, dtype=torch.float32)

    assert 10 * size == attention.k_cache.nbytes + attention.v_cache.nbytes
