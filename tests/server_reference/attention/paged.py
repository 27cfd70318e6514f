"""What tests of attention share: shapes, batches of chunks, and attention written plainly."""

from __future__ import annotations

import torch

from server_reference.attention.backend import PagedCache
from server_reference.core import SamplingParams, Sequence
from server_reference.engine.batch_builder import BatchBuilder
from server_reference.engine.scheduler import Scheduled, Step
from server_reference.models.transformer import ModelConfig

__all__ = ["BLOCK_SIZE", "CONFIG", "a_batch", "a_cache", "attend", "plainly", "random_qkv"]

BLOCK_SIZE = 4
CONFIG = ModelConfig(
    num_layers=2,
    hidden_size=24,
    intermediate_size=8,
    num_q_heads=6,
    num_kv_heads=2,
    head_dim=4,
    vocab_size=8,
    max_context=512,
    rope_theta=10_000.0,
    rms_norm_eps=1e-5,
    tie_embeddings=False,
)


def a_cache(config=CONFIG, *, num_blocks=96, block_size=BLOCK_SIZE, dtype=torch.float32):
    """Blocks full of NaN: whoever reads what it did not write shows it."""
    cache = PagedCache(config, num_blocks=num_blocks, block_size=block_size, dtype=dtype)
    cache.k.fill_(torch.nan)
    cache.v.fill_(torch.nan)
    return cache


def random_qkv(num_tokens, seed=0, *, config=CONFIG, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    heads = (config.num_q_heads, config.num_kv_heads, config.num_kv_heads)
    rows = torch.randn(num_tokens, sum(heads), config.head_dim, generator=generator)
    return rows.to(dtype).split(heads, dim=1)


def a_batch(*chunks, block_size=BLOCK_SIZE):
    """A step of `(block table, start, num_tokens)`, each of a sequence of its own.

    A fourth member says which: equal ones, in any steps, are the same sequence's stay.
    """
    entries = []
    for at, (table, start, num_tokens, *owner) in enumerate(chunks):
        sequence = Sequence(
            id="",
            tenant="",
            prompt_token_ids=[0] * (start + num_tokens),
            params=SamplingParams(max_tokens=1),
            arrival=owner[0] if owner else at,
        )
        sequence.block_table, sequence.row = table, at
        entries.append(Scheduled(sequence, start, num_tokens))
    entries.sort(key=lambda entry: entry.num_tokens > 1)
    builder = BatchBuilder(max_num_seqs=len(chunks), max_blocks=512, block_size=block_size)
    return builder.build(Step(entries))


def attend(attention, batch, qkv, layer=1):
    attention.begin(batch)
    return attention.attend(layer, *qkv)


def plainly(q, k, v, *, config=CONFIG, layer=1):
    """Causal attention over one whole sequence, head by head, in fp32."""
    window, cap = config.window(layer) or len(q), config.attention_soft_cap
    distance = torch.arange(len(q))[:, None] - torch.arange(len(q))
    heads = []
    for head in range(q.shape[1]):
        kv_head = head // (config.num_q_heads // config.num_kv_heads)
        scores = q[:, head].float() @ k[:, kv_head].float().T
        scores = scores * (config.attention_scale or config.head_dim**-0.5)
        scores = scores if cap is None else torch.tanh(scores / cap) * cap
        scores = scores.masked_fill((distance < 0) | (distance >= window), -torch.inf)
        heads.append(scores.softmax(-1) @ v[:, kv_head].float())
    return torch.stack(heads, dim=1)
