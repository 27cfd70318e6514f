"""Choose the next token of every row from its logits.

A draw is the largest sum of scaled logit and Gumbel noise, and the noise is a hash of
(seed, output index, token id). So a draw repeats for the same logits whatever else is in
the batch, and can be made on any device from those three numbers.

Source: Maddison et al., "A* Sampling", 2014 (the Gumbel-max trick); the hash's finalizer
is MurmurHash3's `fmix32`, seeded through SplitMix64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import SamplingParams

__all__ = ["Draw", "gumbel_noise", "sample"]

_NUM_CANDIDATES = 64
_GREEDY_BELOW = 1e-5  # a smaller temperature divides logits into infinity
_MAX_NOISE = 23.0  # above the largest noise: -log(-log(1 - 2**-33)) = 22.87
_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class Draw:
    """What one row is sampled with; `seed` is 64 bits, `index` counts the output's tokens."""

    params: SamplingParams
    seed: int
    index: int

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature < _GREEDY_BELOW


def sample(logits: Tensor, draws: Sequence[Draw]) -> list[int | None]:
    """The next token of each row; `None` where the logits hold a NaN or no finite maximum.

    `top_k` is applied before `top_p`, and `top_p` keeps the token that crosses it.

    Args:
        logits: `[rows, vocab_size]`, fp32.
        draws: One for each row.

    Cost:
        One pass for the maximum; for random rows a partial sort of 64 candidates, and a
        full sort only of rows whose `top_k` or `top_p` reaches beyond them.
    """
    best, likeliest = logits.max(dim=-1)  # a NaN is the maximum of its row
    tokens: list[int | None] = likeliest.tolist()
    usable = best.isfinite().tolist()
    random = [row for row, draw in enumerate(draws) if usable[row] and not draw.is_greedy]
    if random:
        chosen = _draw(logits, [draws[row] for row in random], random)
        for row, token in zip(random, chosen, strict=True):
            tokens[row] = token
    return [token if ok else None for token, ok in zip(tokens, usable, strict=True)]


def gumbel_noise(draws: Sequence[Draw], rows: Tensor, token_ids: Tensor) -> Tensor:
    """Noise of each token in its row, fp32, of the shape of `token_ids`.

    Args:
        draws: Seeds and output indices by row.
        rows: Index into `draws`, broadcast against `token_ids`.
        token_ids: Token ids, int64.
    """
    keys = [_mix64(draw.seed ^ _mix64(draw.index + 1)) for draw in draws]
    low = torch.tensor([key & _MASK_32 for key in keys], device=rows.device)[rows]
    high = torch.tensor([key >> 32 for key in keys], device=rows.device)[rows]
    hashed = _mix32(_mix32(token_ids ^ low) ^ high)
    uniform = (hashed.double() + 0.5) / 2.0**32  # in double: 1 - 2**-33 rounds to 1 in fp32
    return -torch.log(-torch.log(uniform)).float()


def _draw(logits: Tensor, draws: Sequence[Draw], rows: Sequence[int]) -> list[int]:
    """Tokens of the rows that are not greedy."""
    temperatures = torch.tensor([draw.params.temperature for draw in draws], device=logits.device)
    if len(rows) < len(logits):
        logits = logits[torch.tensor(rows, device=logits.device)]
    scaled = logits / temperatures[:, None]
    scores, ids = scaled.topk(min(_NUM_CANDIDATES, scaled.shape[-1]))
    kept, is_exact = _kept(scores, scaled, draws)
    noise = gumbel_noise(draws, torch.arange(len(draws), device=ids.device)[:, None], ids)
    noisy = (scores + noise).masked_fill_(~kept, -torch.inf)
    won, places = noisy.max(dim=-1)
    tokens: list[int] = ids.gather(1, places[:, None])[:, 0].tolist()
    best: list[float] = won.tolist()
    for row, (draw, exact) in enumerate(zip(draws, is_exact.tolist(), strict=True)):
        if not exact:
            floor = best[row] - _MAX_NOISE if _is_unfiltered(draw.params) else None
            tokens[row] = _draw_exactly(scaled[row], draw, floor=floor)
    return tokens


def _kept(scores: Tensor, scaled: Tensor, draws: Sequence[Draw]) -> tuple[Tensor, Tensor]:
    """Which candidates `top_k` and `top_p` leave, and whether those are all there are."""
    num_candidates, vocab_size = scores.shape[-1], scaled.shape[-1]
    top_k = [vocab_size if draw.params.top_k is None else draw.params.top_k for draw in draws]
    limits = torch.tensor(top_k, device=scores.device)[:, None]
    top_p = torch.tensor([draw.params.top_p for draw in draws], device=scores.device)[:, None]
    in_top_k = torch.arange(num_candidates, device=scores.device) < limits
    filtered = scores.masked_fill(~in_top_k, -torch.inf)
    if any(draw.params.top_p < 1.0 and k > num_candidates for draw, k in zip(draws, top_k)):
        total = scaled.logsumexp(-1, keepdim=True)
    else:
        total = filtered.logsumexp(-1, keepdim=True)
    total = torch.where(limits > num_candidates, total, filtered.logsumexp(-1, keepdim=True))
    mass = (filtered - total).exp()
    before = mass.cumsum(-1) - mass
    kept = in_top_k & ((before < top_p) | (top_p >= 1.0))
    kept[:, 0] = True
    reaches_end = kept[:, -1:] & (num_candidates < limits)
    crossed = (before[:, -1:] + mass[:, -1:] >= top_p) & (top_p < 1.0)
    is_exact = ~reaches_end | crossed | (num_candidates == vocab_size)
    return kept, is_exact[:, 0]


def _is_unfiltered(params: SamplingParams) -> bool:
    return params.top_k is None and params.top_p >= 1.0


def _draw_exactly(scaled: Tensor, draw: Draw, *, floor: float | None) -> int:
    """Draw from one whole row.

    Args:
        floor: Tokens below it cannot win, and get no noise; `None` sorts the row and
            applies `top_k` and `top_p`.
    """
    if floor is None:
        scores, ids = scaled.sort(descending=True, stable=True)
        scores = scores[: draw.params.top_k]
        mass = scores.softmax(-1)
        kept = mass.cumsum(-1) - mass < draw.params.top_p
        kept[0] = True
        scores, ids = scores[kept], ids[: len(scores)][kept]
    else:
        ids = (scaled >= floor).nonzero()[:, 0]
        scores = scaled[ids]
    noise = gumbel_noise([draw], torch.zeros_like(ids), ids)
    return int(ids[(scores + noise).argmax()])


def _mix64(value: int) -> int:
    """SplitMix64's output function."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK_64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return value ^ (value >> 31)


def _mix32(value: Tensor) -> Tensor:
    """MurmurHash3's finalizer on unsigned 32-bit numbers held as int64."""
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & _MASK_32
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & _MASK_32
    return value ^ (value >> 16)
