"""Change logits as params say, before a token is chosen: penalties, then bias, then what a
grammar allows and what may not come yet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .draw import Draw

__all__ = ["apply_rules"]


def apply_rules(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    """`logits`, `[rows, vocab_size]`, fp32, where no draw has a rule; else a changed copy."""
    ruled = [(row, draw) for row, draw in enumerate(draws) if draw.has_rule]
    if not ruled:
        return logits
    changed = logits.numpy(force=True).copy()
    for row, draw in ruled:
        _change(changed[row], draw)
    return torch.from_numpy(changed).to(logits.device)


def _change(row: NDArray[np.float32], draw: Draw) -> None:
    params = draw.params
    if draw.repeats:
        ids = np.array([*draw.prompt, *draw.output], np.int64)
        own, penalty = row[ids], params.repetition_penalty
        row[ids] = np.where(own > 0, own / penalty, own * penalty)  # twice the same is no harm
    if draw.counts:
        ids, counts = np.unique(np.array(draw.output, np.int64), return_counts=True)
        row[ids] -= counts * params.frequency_penalty + params.presence_penalty
    if params.logit_bias:
        tokens, bias = zip(*params.logit_bias, strict=True)
        np.add.at(row, np.array(tokens), np.array(bias, np.float32))
    if draw.allowed is not None or draw.banned:
        row[_forbidden(draw, len(row))] = -np.inf


def _forbidden(draw: Draw, vocab_size: int) -> NDArray[np.bool_]:
    """Tokens that grammar and ban leave out, `[vocab_size]`."""
    forbidden = np.full(vocab_size, draw.allowed is not None)
    if draw.allowed is not None:
        bits = np.unpackbits(draw.allowed.numpy().view(np.uint8), bitorder="little")[:vocab_size]
        forbidden[: len(bits)] = bits == 0
    with_ban = forbidden.copy()
    with_ban[list(draw.banned)] = True
    return forbidden if draw.allowed is not None and with_ban.all() else with_ban
