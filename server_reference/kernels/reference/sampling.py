"""The next token of every row, in float64: change every logit, sort all, add all the noise."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..noise import token_hashes
from ..packed_draws import PackedDraws

__all__ = ["argmax", "draw_tokens"]


def argmax(logits: Tensor) -> Tensor:
    """The twin of `kernels.sampling.argmax`."""
    is_usable = logits.double().amax(-1).isfinite()
    return torch.where(is_usable, logits.double().argmax(-1), -1)


def draw_tokens(logits: Tensor, draws: PackedDraws) -> Tensor:
    """The twin of `kernels.sampling.draw_tokens`."""
    tokens = argmax(logits)
    changed = _ruled(logits.double(), draws)
    for row, params in enumerate(draws.params.tolist()):
        is_usable = int(tokens[row]) >= 0 and bool(changed[row].amax().isfinite())
        tokens[row] = _drawn(changed[row], *params) if is_usable else -1
    return tokens


def _ruled(logits: Tensor, draws: PackedDraws) -> Tensor:
    if draws.penalties is not None:
        its = draws.penalties
        values = its.rows.tolist(), its.factors.tolist(), its.places.tolist()
        for row, factors, (sequence, num_prompt, num_tokens) in zip(*values, strict=True):
            tokens = its.history[sequence, :num_tokens].tolist()
            _penalise(logits[row], tokens, tokens[num_prompt:], *factors)
    if draws.bias is not None:
        places = draws.bias.places.tolist()
        for (row, token), values in zip(places, draws.bias.values.double(), strict=True):
            logits[row, token] += values.sum()
    if draws.masks is not None:
        for row, words in zip(draws.masks.rows.tolist(), draws.masks.bits.tolist(), strict=True):
            allowed = [word >> bit & 1 for word in words for bit in range(32)]
            forbidden = [not allowed[token] for token in range(logits.shape[1])]
            logits[row, torch.tensor(forbidden, device=logits.device)] = -torch.inf
    return logits


def _penalise(
    row: Tensor,
    tokens: list[int],
    output: list[int],
    repetition: float,
    frequency: float,
    presence: float,
) -> None:
    for token in set(tokens):
        row[token] *= 1 / repetition if row[token] > 0 else repetition
    for token in set(output):
        row[token] -= output.count(token) * frequency + presence


def _drawn(
    row: Tensor,
    key_low: float,
    key_high: float,
    scale: float,
    floor: float,
    top_k: float,
    top_p: float,
) -> int:
    if scale == 0:
        return int(row.argmax())
    scores = (row - row.max()) * scale
    order = scores.argsort(descending=True, stable=True)[: int(top_k)]
    order = order[(scores[order] >= floor) & (scores[order] > -torch.inf)]
    mass = scores[order].exp()
    before = mass.cumsum(0) - mass
    kept = order[(before < top_p * mass.sum()) | (mass.cumsum(0) == mass[0])]
    token_ids = np.arange(len(row), dtype=np.uint32)[None]
    (hashes,) = token_hashes([int(key_low) | int(key_high) << 32], token_ids)
    noise = -np.log(-np.log((hashes + 0.5) / 2.0**32))
    noisy = scores + torch.from_numpy(noise).to(scores.device)
    return int(kept[noisy[kept].argmax()])
