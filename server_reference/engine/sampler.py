"""Choose the next token of every row from its logits.

A draw is the largest sum of scaled logit and Gumbel noise, and the noise is a hash of
(seed, output index, token id). So a draw repeats for the same logits whatever else is in
the batch, and can be made on any device from those three numbers.

Source: Maddison et al., "A* Sampling", 2014 (the Gumbel-max trick); the hash's finalizer
is MurmurHash3's `fmix32`, seeded through SplitMix64.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import exp

import torch
from torch import Tensor

from ..core import SamplingParams, TokenLogprob

__all__ = [
    "Draw",
    "Sampled",
    "banned_tokens",
    "gumbel_noise",
    "prompt_logprobs",
    "sample",
    "token_hashes",
]

_NUM_CANDIDATES = 64
_GREEDY_BELOW = 1e-5  # a smaller temperature divides logits into infinity
_FAR = 8.0  # a token this far below the best one wins only with noise above it
_FAR_HASH = int(2**32 * exp(-exp(-_FAR))) - 2**32 - 1  # such noise has a hash from here to -1
_MASK_64 = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class Draw:
    """What one row is sampled with; `seed` is 64 bits, `index` counts the output's tokens."""

    params: SamplingParams
    seed: int
    index: int
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()
    allowed: Tensor | None = None
    banned: Set[int] = frozenset()

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature < _GREEDY_BELOW

    @property
    def is_nucleus(self) -> bool:
        return self.params.top_p < 1.0

    @property
    def keeps_all(self) -> bool:
        return self.params.top_k is None and not self.is_nucleus


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """The next token of each row, -1 for none, and what it was drawn from."""

    tokens: Tensor
    logits: Tensor
    draws: Sequence[Draw]

    def host_tokens(self) -> list[int | None]:
        return [None if token < 0 else token for token in self.tokens.tolist()]

    def host_logprobs(self) -> list[TokenLogprob | None]:
        if all(draw.params.logprobs is None for draw in self.draws):
            return [None] * len(self.draws)
        return [
            _logprob(row, token, draw.params.logprobs)
            if token is not None and draw.params.logprobs is not None
            else None
            for row, token, draw in zip(self.logits, self.host_tokens(), self.draws, strict=True)
        ]


def prompt_logprobs(logits: Tensor, next_ids: Sequence[int], num_top: int) -> list[TokenLogprob]:
    """Those of a prompt's tokens, where row `i` of `logits` is for `next_ids[i]`."""
    return [_logprob(row, token, num_top) for row, token in zip(logits, next_ids, strict=True)]


def _logprob(logits: Tensor, token: int, num_top: int) -> TokenLogprob:
    all_of_them = logits.log_softmax(-1)
    top = all_of_them.topk(num_top)
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return TokenLogprob(token_id=token, logprob=float(all_of_them[token]), top=tuple(pairs))


def banned_tokens(params: SamplingParams, eos: Set[int], index: int) -> Set[int]:
    """Tokens that may not be drawn at output index `index`, because none may end it yet."""
    if index >= params.min_tokens:
        return frozenset()
    return frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else eos)


def sample(logits: Tensor, draws: Sequence[Draw]) -> Sampled:
    """As `_tokens`, with banned tokens left out."""
    chosen = logits
    for row, draw in enumerate(draws):
        if draw.banned:
            chosen = chosen.clone() if chosen is logits else chosen
            chosen[row, list(draw.banned)] = -torch.inf
    tokens = [-1 if token is None else token for token in _tokens(chosen, draws)]
    return Sampled(torch.tensor(tokens), logits, draws)


def _tokens(logits: Tensor, draws: Sequence[Draw]) -> list[int | None]:
    """The next token of each row; `None` where the logits hold a NaN or no finite maximum.

    `top_k` is applied before `top_p`, and `top_p` keeps the token that crosses it.

    Args:
        logits: `[rows, vocab_size]`, fp32.
        draws: One for each row.

    Cost:
        One pass for the maximum, for random rows a partial sort of 64 candidates, and a few
        more passes over the rows whose `top_k` or `top_p` reaches beyond those. Never a
        full sort: 176 ms at 32 x 49,152, against 4 ms for the candidates.
    """
    best, likeliest = logits.max(dim=-1)  # a NaN is the maximum of its row
    tokens: list[int | None] = likeliest.tolist()
    usable = best.isfinite().tolist()
    random = [row for row, draw in enumerate(draws) if usable[row] and not draw.is_greedy]
    if random:
        rows = logits if len(random) == len(logits) else logits[random]
        chosen = _draw(rows, [draws[row] for row in random])
        for row, token in zip(random, chosen, strict=True):
            tokens[row] = token
    return [token if ok else None for token, ok in zip(tokens, usable, strict=True)]


def gumbel_noise(hashes: Tensor) -> Tensor:
    """Noise of the standard Gumbel distribution, one for each hash, fp32."""
    unsigned = hashes.double() + torch.where(hashes < 0, 2.0**32, 0.0)
    return -torch.log(-torch.log((unsigned + 0.5) / 2.0**32)).float()


def token_hashes(draws: Sequence[Draw], token_ids: Tensor) -> Tensor:
    """32 even random bits for each token of each draw, as int32.

    Args:
        draws: One for each row.
        token_ids: `[rows, num_tokens]`, or `[num_tokens]` for one row.
    """
    keys = [_mix64(draw.seed ^ _mix64(draw.index + 1)) for draw in draws]
    low = _column([_signed(key) for key in keys], token_ids).int()
    high = _column([_signed(key >> 32) for key in keys], token_ids).int()
    return _mix32(_mix32(token_ids.int() ^ low) ^ high)


def _draw(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """Tokens of rows that are not greedy."""
    scaled = logits / _column([draw.params.temperature for draw in draws], logits)
    scores, ids = scaled.topk(min(_NUM_CANDIDATES, scaled.shape[-1]))
    kept, complete = _kept(scores, scaled, draws)
    noisy = (scores + gumbel_noise(token_hashes(draws, ids))).masked_fill_(~kept, -torch.inf)
    best, places = noisy.max(dim=-1)
    tokens: list[int] = ids.gather(1, places[:, None])[:, 0].tolist()
    for row, (score, is_complete) in enumerate(zip(best, complete.tolist(), strict=True)):
        if not is_complete:
            tokens[row] = _draw_beyond(scaled[row], draws[row], score, tokens[row])
    return tokens


def _kept(scores: Tensor, scaled: Tensor, draws: Sequence[Draw]) -> tuple[Tensor, Tensor]:
    """Which candidates `top_k` and `top_p` leave, and in which rows those are all there are."""
    num_candidates, vocab_size = scores.shape[-1], scaled.shape[-1]
    limits = [min(draw.params.top_k or vocab_size, vocab_size) for draw in draws]
    top_k = _column(limits, scores)
    top_p = _column([draw.params.top_p if draw.is_nucleus else torch.inf for draw in draws], scores)
    in_top_k = torch.arange(num_candidates, device=scores.device) < top_k
    filtered = scores.masked_fill(~in_top_k, -torch.inf)
    total = filtered.logsumexp(-1, keepdim=True)
    if any(draw.is_nucleus and k == vocab_size for draw, k in zip(draws, limits, strict=True)):
        total = total.where(top_k < vocab_size, scaled.logsumexp(-1, keepdim=True))
    reached = (filtered - total).exp().cumsum(-1)
    before = torch.cat([torch.zeros_like(total), reached[:, :-1]], dim=-1)
    complete = (top_k <= num_candidates) | ((top_k == vocab_size) & (reached[:, -1:] >= top_p))
    kept = in_top_k & (before < top_p)
    kept[:, 0] = True  # whatever `top_p`: 0 would keep none
    return kept, complete[:, 0]


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, device=like.device)[:, None]


def _draw_beyond(scaled: Tensor, draw: Draw, best: Tensor, token: int) -> int:
    """Draw from a whole row, of which `token` has the largest noisy score so far, `best`."""
    everything = torch.arange(len(scaled), dtype=torch.int32, device=scaled.device)
    hashes = token_hashes([draw], everything)[0]
    ids = ((scaled >= best - _FAR) | ((hashes >= _FAR_HASH) & (hashes < 0))).nonzero()[:, 0]
    noisy = scaled[ids] + gumbel_noise(hashes[ids])
    ahead = noisy > best
    for place in noisy[ahead].argsort(descending=True).tolist():
        challenger = int(ids[ahead][place])
        if draw.keeps_all or _keeps(scaled, draw.params, challenger):
            return challenger
    return token


def _keeps(scaled: Tensor, params: SamplingParams, token: int) -> bool:
    """Whether `top_k` and `top_p` leave this token of a row; equal ones go by token id."""
    above = scaled > scaled[token]
    above[:token] |= scaled[:token] == scaled[token]
    if params.top_k is not None and int(above.sum()) >= params.top_k:
        return False
    top = scaled if params.top_k is None else scaled.topk(min(params.top_k, len(scaled))).values
    mass_above = (scaled[above] - top.logsumexp(-1)).exp().sum()
    return params.top_p >= 1.0 or bool(mass_above < params.top_p)


def _mix64(value: int) -> int:
    """SplitMix64's output function."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK_64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return value ^ (value >> 31)


def _mix32(bits: Tensor) -> Tensor:
    """MurmurHash3's finalizer; int32 wraps, and its right shifts are made logical."""
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * _signed(0x85EBCA6B)
    bits = (bits ^ ((bits >> 13) & 0x7FFFF)) * _signed(0xC2B2AE35)
    return bits ^ ((bits >> 16) & 0xFFFF)


def _signed(bits: int) -> int:
    """The low 32 bits as int32 holds them."""
    return ((bits + 0x80000000) & 0xFFFFFFFF) - 0x80000000
