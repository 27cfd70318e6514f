"""The log-probabilities that a model gives to tokens, before anything changes its logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core import TokenLogprob
from .candidates import Blocks

__all__ = ["prompt_logprobs", "token_logprobs"]

_NUM_CANDIDATES = 64  # more than are told, so that equal ones at the edge go by id


def token_logprobs(logits: Tensor, tokens: Tensor, num_top: Sequence[int]) -> list[TokenLogprob]:
    """Natural logarithms of softmax, of a token of each row and of the likeliest ones.

    Args:
        logits: `[rows, vocab_size]`, fp32.
        tokens: `[rows]`, int64.
        num_top: How many of the likeliest are told of each row, likeliest first, equal ones
            by id.
    """
    # Row by row: several threads share out the sum of a single row, but none of several rows.
    total = torch.cat([row.logsumexp(-1, keepdim=True) for row in torch.split(logits, 1)])
    own = (logits.gather(1, tokens[:, None]) - total)[:, 0].tolist()
    most = min(max(num_top, default=0), logits.shape[-1])
    tops: list[list[tuple[int, float]]] = [[] for _ in own]
    if most:
        values, ids = Blocks.of(logits).top(max(most, _NUM_CANDIDATES))
        rows = zip(ids.tolist(), (values - total.numpy(force=True)).tolist(), strict=True)
        tops = [list(zip(tokens, logprobs, strict=True))[:most] for tokens, logprobs in rows]
    return [
        TokenLogprob(token_id=token, logprob=value, top=tuple(top[:count]))
        for token, value, top, count in zip(tokens.tolist(), own, tops, num_top, strict=True)
    ]


def prompt_logprobs(
    logits: Tensor, next_token_ids: Sequence[int], num_top: int
) -> list[TokenLogprob]:
    """The same of a prompt's tokens, where row `i` of `logits` is for `next_token_ids[i]`."""
    tokens = torch.tensor(next_token_ids, dtype=torch.int64, device=logits.device)
    return token_logprobs(logits, tokens, [num_top] * len(next_token_ids))
