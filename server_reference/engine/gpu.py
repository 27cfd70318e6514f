"""What an engine has on a GPU: memory for its pool, attention, and recorded steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from ..attention.backend import PagedCache
from ..attention.batch import Batch
from ..attention.triton_attention import TritonAttention
from ..config import EngineConfig
from ..core import SamplingParams
from ..kernels.draw import Draw
from ..kernels.sampler import Sampled
from ..kernels.transfer import send
from ..models.numerics import kv_dtype_of
from ..models.transformer import Transformer
from .device_texts import DeviceTexts
from .graphs import CudaCapture, DecodeGraphs
from .speculation import HostTexts, Texts

__all__ = ["body_of", "free_memory", "largest_batch", "largest_step", "texts_of"]

_SPARE = 1 << 30
"""Bytes that are left alone: for the smaller recorded steps, and what no allocator joins."""


def free_memory(model: Transformer, config: EngineConfig) -> int:
    """Bytes that the weights, the largest step and the largest recorded one leave.

    Both are run, with a pool of one block: a kernel that is not there is missed now.
    """
    device = model.device
    cache = PagedCache(
        model.config,
        num_blocks=1,
        block_size=config.block_size,
        dtype=kv_dtype_of(config, model.dtype),
        device=device,
    )
    torch.cuda.reset_peak_memory_stats(device)
    held = torch.cuda.memory_allocated(device)
    max_context = config.max_context or model.config.max_context
    attention, record = body_of(model, config, cache, max_context=max_context)
    texts = texts_of(model, config, max_context=max_context)
    batch = largest_batch(config, max_context)
    steps = [largest_step(model, attention, config, batch) for _ in range(2)]  # one looks ahead
    step = torch.cuda.max_memory_allocated(device) - held
    del steps
    torch.cuda.empty_cache()
    before, _ = torch.cuda.mem_get_info(device)
    newest = torch.zeros(config.max_num_seqs + 1, dtype=torch.int64, device=device)
    graphs = record(newest, sizes=[config.max_num_seqs])
    after, _ = torch.cuda.mem_get_info(device)
    del graphs, attention, record, cache, texts
    torch.cuda.empty_cache()
    left, _ = torch.cuda.mem_get_info(device)
    return max(0, left - step - (before - after) - _SPARE)


def body_of(
    model: Transformer, config: EngineConfig, cache: PagedCache, *, max_context: int
) -> tuple[TritonAttention, Callable[..., DecodeGraphs]]:
    """Attention, and what records steps with it."""
    max_blocks = -(-max_context // config.block_size)
    attention = TritonAttention(
        model.config,
        cache,
        dtype=model.dtype,
        max_num_seqs=config.max_num_seqs,
        max_step_tokens=config.max_step_tokens,
        max_blocks=max_blocks,
    )
    record = partial(DecodeGraphs, model, attention, max_blocks=max_blocks, capture=CudaCapture())
    return attention, record


def texts_of(model: Transformer, config: EngineConfig, *, max_context: int) -> Texts:
    """Where n-grams are looked up; on the host where they are not."""
    if not config.num_draft_tokens:
        return HostTexts()
    return DeviceTexts(
        max_num_seqs=config.max_num_seqs,
        max_context=max_context,
        num_drafts=config.num_draft_tokens,
        device=model.device,
    )


def largest_batch(config: EngineConfig, max_context: int) -> Batch:
    """As many tokens as a step may have, of as many sequences as may run."""
    num_seqs = config.max_num_seqs
    num_tokens = min(config.max_step_tokens, num_seqs * max_context)  # none is longer than it may
    query_start = np.arange(num_seqs + 1) * num_tokens // num_seqs
    none = np.zeros(num_tokens, dtype=np.int64)
    return replace(
        Batch.empty(1),
        slots=none - 1,
        positions=none,
        query_start=query_start,
        context_lens=np.diff(query_start),
        block_table=np.zeros((num_seqs, 1), dtype=np.int64),
    )


def largest_step(
    model: Transformer, attention: TritonAttention, config: EngineConfig, batch: Batch
) -> Sampled:
    """Run a batch, with a draw for every sequence and draft, that has all kinds of rules."""
    attention.begin(batch)
    zeros = send(batch.positions, model.device)
    params = SamplingParams(
        max_tokens=1,
        temperature=1.0,
        top_p=0.9,
        repetition_penalty=1.1,
        logit_bias=((0, 1.0),),
    )
    vocab_size, num_rows = model.config.vocab_size, config.max_num_seqs
    allowed = torch.full((-(-vocab_size // 32),), -1, dtype=torch.int32)
    with torch.inference_mode():
        hidden = model.hidden(zeros, zeros, attention)
        logits = model.logits(hidden[: num_rows * (1 + config.num_draft_tokens)])
        draw = Draw(params, seed=0, index=0, allowed=allowed)
        return model.operations.sample(logits, [draw] * len(logits))
