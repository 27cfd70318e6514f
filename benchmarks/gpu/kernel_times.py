"""The fused kernels and the draws beside the copy's bandwidth, and beside torch's calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from server_reference.core import SamplingParams
from server_reference.kernels import eager, fused
from server_reference.kernels.draw import Draw
from server_reference.kernels.packed_draws import PackedDraws
from server_reference.kernels.rotary import rotate_and_store
from server_reference.kernels.sampling import draw_tokens
from server_reference.roofline import Chip

from .ceilings import or_why
from .device import Device
from .figures import Figure
from .sizes import Sizes

__all__ = ["drawn_by_torch", "draws", "fused_kernels"]

_Run: TypeAlias = Callable[[], Tensor]


def fused_kernels(device: Device, sizes: Sizes, chip: Chip) -> Iterator[Figure]:
    """What passes over rows once, in its share of the copy's bandwidth, beside torch's calls."""
    rows = sizes.rows
    for name, moved, run, other in _calls(device, sizes):
        seconds = device.seconds(run)
        yield Figure(
            stage="fused kernels",
            name=f"{name}, {rows:,} rows",
            value=seconds * 1e6,
            unit="us",
            share=moved / seconds / chip.bandwidth,
            best="copy",
            beside={"torch": or_why(partial(_microseconds, device, other))} if other else {},
        )


def _microseconds(device: Device, run: _Run) -> float:
    return device.seconds(run) * 1e6


def _calls(device: Device, sizes: Sizes) -> Iterator[tuple[str, int, _Run, _Run | None]]:
    """Each kernel's name, the bytes that it moves, itself, and the same in torch's calls."""
    config, rows, size = sizes.model, sizes.rows, device.dtype.itemsize
    hidden, inner = config.hidden_size, config.intermediate_size
    given = {"dtype": device.dtype, "device": device.device}
    table = torch.randn(config.vocab_size, hidden, **given)
    tokens = torch.randint(config.vocab_size, (rows,), device=device.device)
    run, other = (
        partial(one.embed, tokens, table, scale=1.0, newest=None) for one in (fused, eager)
    )
    yield "embed", rows * (hidden * (size + 4) + 8), run, other

    x = torch.randn(rows, hidden, device=device.device)
    added, weight = torch.randn(rows, hidden, **given), torch.ones(hidden, device=device.device)
    options = {"eps": 1e-6, "dtype": device.dtype, "added": added, "post_weight": None}
    run, other = (partial(one.add_and_normalise, x, weight, **options) for one in (fused, eager))
    yield "add_and_normalise", rows * hidden * (8 + 2 * size), run, other

    gate_up = torch.randn(rows, 2 * inner, **given)
    run, other = (partial(one.activate, gate_up, "silu") for one in (fused, eager))
    yield "activate", rows * 3 * inner * size, run, other
    yield _rotated(device, sizes)


def _rotated(device: Device, sizes: Sizes) -> tuple[str, int, _Run, None]:
    config, rows = sizes.model, sizes.rows
    kv_heads, head_dim = config.num_kv_heads, config.head_dim
    given = {"dtype": device.dtype, "device": device.device}
    width = (config.num_q_heads + 2 * kv_heads) * head_dim
    cache = torch.empty(2, -(-rows // 16), 16, kv_heads, head_dim, **given)
    angles = torch.randn(2, rows, 1, head_dim, device=device.device)
    norm = torch.ones(head_dim, device=device.device) if config.qk_norm else None
    run = partial(
        rotate_and_store,
        torch.randn(rows, width, **given),
        cache[0],
        cache[1],
        slots=torch.randperm(rows, device=device.device),
        cos=angles[0],
        sin=angles[1],
        num_q_heads=config.num_q_heads,
        q_norm=norm,
        k_norm=norm,
        eps=1e-6,
    )
    return "rotate_and_store", rows * (2 * width * device.dtype.itemsize + 8 * head_dim), run, None


_DRAWS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "temperature 0.6": {"temperature": 0.6},
    "temperature 1, top_p 0.9": {"temperature": 1.0, "top_p": 0.9},
    "temperature 1, top_k 40": {"temperature": 1.0, "top_k": 40},
}


def draws(device: Device, sizes: Sizes, chip: Chip) -> Iterator[Figure]:
    """Sampling: its share is of reading the logits once."""
    rows, vocab_size = sizes.drawn, sizes.model.vocab_size
    # Spread like those of a trained model, whose likeliest tokens stand out.
    logits = torch.randn(rows, vocab_size, device=device.device) * 3
    for name, its in _DRAWS.items():
        params = SamplingParams(max_tokens=1, **its)
        given = [Draw(params, seed=row, index=0) for row in range(rows)]
        packed = PackedDraws.of(given, vocab_size=vocab_size, device=device.device)
        seconds = device.seconds(partial(draw_tokens, logits, packed))
        other = partial(drawn_by_torch, logits, **its)
        yield Figure(
            stage="draws",
            name=f"{name}, {rows} x {vocab_size:,}",
            value=seconds * 1e6,
            unit="us",
            share=4 * rows * vocab_size / seconds / chip.bandwidth,
            best="copy",
            beside={"torch": or_why(partial(_microseconds, device, other))},
        )


def drawn_by_torch(
    logits: Tensor, temperature: float, top_p: float | None = None, top_k: int | None = None
) -> Tensor:
    """Draw as it is written with torch alone."""
    if temperature == 0:
        return logits.argmax(-1)
    scores = logits / temperature
    if top_k is not None:
        least = scores.topk(min(top_k, scores.shape[1])).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if top_p is not None:
        ordered, order = scores.sort(descending=True)
        mass = ordered.softmax(-1)
        ordered = ordered.masked_fill(mass.cumsum(-1) - mass > top_p, -torch.inf)
        scores = torch.empty_like(scores).scatter_(1, order, ordered)
    return (scores.softmax(-1) / torch.empty_like(scores).exponential_()).argmax(-1)
