"""A whole decode step, beside its roofline and beside the same step in torch's words."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from server_reference.core import SamplingParams
from server_reference.kernels import eager, fused
from server_reference.kernels.draw import Draw
from server_reference.kernels.packed_draws import PackedDraws
from server_reference.kernels.sampling import draw_tokens
from server_reference.models.transformer import Transformer
from server_reference.roofline import Chip, Roofline

from .ceilings import or_why
from .device import Device
from .figures import Figure
from .kernel_times import drawn_by_torch
from .model import TorchCache, body, decode_batch, random_weights
from .sizes import Sizes

__all__ = ["decode_step"]

_TEMPERATURE = 0.6


def decode_step(device: Device, sizes: Sizes, chip: Chip) -> Iterator[Figure]:
    """Forward pass, logits and draw of the recorded step that the engine would replay."""
    num_seqs, context = sizes.step
    weights = random_weights(sizes.model, device)
    ours = _ours(device, sizes, weights)
    device.forget()
    theirs = or_why(lambda: _by_torch(device, sizes, weights) * 1e6)
    device.forget()
    roofline = Roofline(
        config=sizes.model,
        chip=chip,
        weight_bytes=device.dtype.itemsize,
        kv_bytes=device.dtype.itemsize,
        activation_bytes=device.dtype.itemsize,
    )
    yield Figure(
        stage="decode step",
        name=f"{num_seqs} x {context:,} tokens, with the draw",
        value=ours * 1e6,
        unit="us",
        share=roofline.seconds([(1, context)] * num_seqs) / ours,
        best="measured roofline",
        beside={"torch, with SDPA": theirs},
    )


def _ours(device: Device, sizes: Sizes, weights: dict[str, Tensor]) -> float:
    num_seqs, context = sizes.step
    transformer = Transformer(sizes.model, weights, operations=fused)
    its = body(
        device,
        transformer,
        num_blocks=num_seqs * -(-context // sizes.block_size),
        block_size=sizes.block_size,
        max_num_seqs=num_seqs,
        max_step_tokens=2 * num_seqs,
        max_context=context,
    )
    newest = torch.zeros(num_seqs + 1, dtype=torch.int64, device=device.device)
    attention = its.attention
    attention.begin(decode_batch(num_seqs, context, sizes.block_size))
    token_ids = -1 - torch.arange(num_seqs, device=device.device)
    positions = torch.full((num_seqs,), context - 1, device=device.device)

    params = SamplingParams(max_tokens=1, temperature=_TEMPERATURE)
    draws = [Draw(params, seed=row, index=0) for row in range(num_seqs)]
    vocab_size = sizes.model.vocab_size
    packed = PackedDraws.of(draws, vocab_size=vocab_size, device=device.device)

    def run() -> Tensor:
        hidden = transformer.hidden(token_ids, positions, attention, newest=newest)
        return draw_tokens(transformer.logits(hidden), packed)

    return device.seconds(run)


def _by_torch(device: Device, sizes: Sizes, weights: dict[str, Tensor]) -> float:
    num_seqs, context = sizes.step
    transformer = Transformer(sizes.model, weights, operations=eager)
    cache = TorchCache(sizes.model, device, num_seqs, context)
    token_ids = torch.arange(num_seqs, device=device.device)
    positions = torch.full((num_seqs,), context - 1, device=device.device)

    def run() -> Tensor:
        logits = transformer.logits(transformer.hidden(token_ids, positions, cache.attend))
        return drawn_by_torch(logits, _TEMPERATURE)

    return device.seconds(run)
