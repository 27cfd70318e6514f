"""A model of random weights, and what runs its steps: our kernels, or torch alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from server_reference.attention.backend import PagedCache
from server_reference.attention.batch import Batch
from server_reference.attention.triton_attention import TritonAttention
from server_reference.checkpoints.load import LoadedModel
from server_reference.engine.graphs import DecodeGraphs
from server_reference.engine.parts import Body
from server_reference.engine.speculation import HostTexts
from server_reference.kernels import eager, fused
from server_reference.kernels.heads import by_heads
from server_reference.models.transformer import ModelConfig, Transformer, weight_shapes

from .device import Device

__all__ = ["Numbered", "TorchCache", "body", "decode_batch", "loaded", "random_weights", "whole"]


class Numbered:
    """A tokenizer whose tokens are numbers, none of which ends a text."""

    eos_token_ids: frozenset[int] = frozenset()

    def token_bytes(self, token_id: int) -> bytes:
        return b"%d " % token_id


def random_weights(config: ModelConfig, device: Device) -> dict[str, Tensor]:
    """Norms of 1, and matrices as a model has them before it is trained."""
    chance = torch.Generator(device.device).manual_seed(0)
    weights = {}
    for name, shape in weight_shapes(config).items():
        weight = torch.ones(shape, dtype=device.dtype, device=device.device)
        weights[name] = weight.normal_(0.0, 0.02, generator=chance) if len(shape) > 1 else weight
    return weights


def loaded(config: ModelConfig, weights: dict[str, Tensor]) -> LoadedModel:
    """A model on our kernels."""
    transformer = Transformer(config, weights, operations=fused)
    return LoadedModel(transformer, Numbered(), "random", "random weights")  # type: ignore[arg-type]  # enough of a tokenizer


def body(
    device: Device,
    transformer: Transformer,
    *,
    num_blocks: int,
    block_size: int,
    max_num_seqs: int,
    max_step_tokens: int,
    max_context: int,
) -> Body:
    """Attention, and what records steps: what an engine has, with a cache of a known size."""
    cache = PagedCache(
        transformer.config,
        num_blocks=num_blocks,
        block_size=block_size,
        dtype=device.dtype,
        device=device.device,
    )
    cache.k.normal_()  # as zeros a chip computes faster than it does
    cache.v.normal_()
    max_blocks = -(-max_context // block_size)
    attention = TritonAttention(
        transformer.config,
        cache,
        dtype=device.dtype,
        max_num_seqs=max_num_seqs,
        max_step_tokens=max_step_tokens,
        max_blocks=max_blocks,
        num_splits=partial(
            device.num_splits,
            num_kv_heads=transformer.config.num_kv_heads,
            max_context=max_blocks * block_size,
        ),
    )
    record = partial(
        DecodeGraphs, transformer, attention, max_blocks=max_blocks, capture=device.capture
    )
    return Body(attention, record, HostTexts())


def decode_batch(num_seqs: int, context: int, block_size: int) -> Batch:
    """Sequences of one length that decode, each in blocks of its own, far from each other."""
    blocks = -(-context // block_size)
    table = np.arange(num_seqs * blocks, dtype=np.int64).reshape(blocks, num_seqs).T
    each = np.arange(num_seqs, dtype=np.int64)
    at = context - 1
    return Batch(
        token_ids=-1 - each,
        positions=np.full(num_seqs, at),
        slots=table[:, at // block_size] * block_size + at % block_size,
        num_decodes=num_seqs,
        query_start=np.arange(num_seqs + 1, dtype=np.int64),
        context_lens=np.full(num_seqs, context),
        targets=np.full(num_seqs, context),
        block_table=table,
        rows=each,
        owners=[(row, 0) for row in range(num_seqs)],
        sample_rows=each,
        sampled=each,
    )


class TorchCache:
    """Attention of decodes in torch's words: SDPA over contiguous keys and values."""

    def __init__(self, config: ModelConfig, device: Device, num_seqs: int, context: int) -> None:
        shape = (config.num_layers, num_seqs, config.num_kv_heads, context, config.head_dim)
        given = {"dtype": device.dtype, "device": device.device}
        self._k, self._v = torch.randn(shape, **given), torch.randn(shape, **given)
        self.attend = by_heads(self._attend)

    def _attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._k[layer], self._v[layer]
        keys[:, :, -1], values[:, :, -1] = k, v
        out = functional.scaled_dot_product_attention(q.unsqueeze(2), keys, values, enable_gqa=True)
        return out.squeeze(2)


def whole(transformer: Transformer, token_ids: list[int]) -> Tensor:
    """Logits of every token of one text, computed all at once with torch alone."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (one.transpose(0, 1).unsqueeze(0) for one in (q, k, v))
        scale = transformer.config.attention_scale
        out = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scale, enable_gqa=True
        )
        return out[0].transpose(0, 1)

    assert transformer.operations is eager, "torch alone"
    tokens = torch.tensor(token_ids)
    return transformer.logits(
        transformer.hidden(tokens, torch.arange(len(tokens)), by_heads(attend))
    )
