"""Change logits as params say, before a token is chosen: penalties, then bias, then what a
grammar allows and what may not come yet.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .draw import Draw

__all__ = ["apply_rules"]

_Rows = list[tuple[int, Draw]]


def apply_rules(logits: Tensor, draws: Seq[Draw]) -> Tensor:
    """`logits` themselves where no draw has a rule, otherwise a changed copy.

    Args:
        logits: `[rows, vocab_size]`, fp32.
        draws: One for each row.
    """
    rows = [(row, draw) for row, draw in enumerate(draws) if draw.has_rule]
    if not rows:
        return logits
    changed = logits.clone()
    _divide_repeated(changed, [(row, draw) for row, draw in rows if draw.repeats])
    _take_off_counted(changed, [(row, draw) for row, draw in rows if draw.counts])
    _add_bias(changed, [(row, draw) for row, draw in rows if draw.params.logit_bias])
    for row, draw in rows:
        if draw.allowed is not None or draw.banned:
            forbidden = torch.from_numpy(_forbidden(draw, logits.shape[-1]))
            changed[row].masked_fill_(forbidden.to(logits.device), -torch.inf)
    return changed


def _divide_repeated(logits: Tensor, rows: _Rows) -> None:
    if not rows:
        return
    places, lengths = _places(logits, rows, lambda draw: [*draw.prompt, *draw.output])
    penalty = _each([draw.params.repetition_penalty for _, draw in rows], lengths, logits)
    values = logits.view(-1)[places]
    # A token that stands twice is written twice, the same value.
    logits.view(-1)[places] = torch.where(values > 0, values / penalty, values * penalty)


def _take_off_counted(logits: Tensor, rows: _Rows) -> None:
    if not rows:
        return
    places, lengths = _places(logits, rows, lambda draw: draw.output)
    frequency = _each([draw.params.frequency_penalty for _, draw in rows], lengths, logits)
    presence = _each([draw.params.presence_penalty for _, draw in rows], lengths, logits)
    counts = torch.zeros(logits.numel(), device=logits.device)
    counts.index_add_(0, places, torch.ones_like(frequency))
    values = logits.view(-1)[places]
    logits.view(-1)[places] = values - (frequency * counts[places] + presence)


def _add_bias(logits: Tensor, rows: _Rows) -> None:
    if not rows:
        return
    places, _ = _places(logits, rows, lambda draw: [token for token, _ in draw.params.logit_bias])
    bias = [value for _, draw in rows for _, value in draw.params.logit_bias]
    logits.view(-1).index_add_(0, places, torch.tensor(bias, device=logits.device))


def _places(
    logits: Tensor, rows: _Rows, tokens: Callable[[Draw], Seq[int]]
) -> tuple[Tensor, list[int]]:
    """Where the tokens of these rows stand in `logits.view(-1)`, and how many each row has."""
    found = [np.asarray(tokens(draw), np.int64) for _, draw in rows]
    starts = [row * logits.shape[-1] for row, _ in rows]
    places = np.concatenate([ids + start for ids, start in zip(found, starts, strict=True)])
    return torch.from_numpy(places).to(logits.device), [len(ids) for ids in found]


def _each(values: Seq[float], lengths: Seq[int], logits: Tensor) -> Tensor:
    """A row's value for each of its tokens."""
    return torch.from_numpy(np.repeat(np.array(values, np.float32), lengths)).to(logits.device)


def _forbidden(draw: Draw, vocab_size: int) -> NDArray[np.bool_]:
    """Tokens that grammar and ban leave out, `[vocab_size]`."""
    forbidden = np.zeros(vocab_size, np.bool_)
    if draw.allowed is not None:
        bits = np.unpackbits(draw.allowed.numpy().view(np.uint8), bitorder="little")[:vocab_size]
        forbidden[:] = True
        forbidden[: len(bits)] = bits == 0
    banned = forbidden.copy()
    banned[list(draw.banned)] = True
    return forbidden if banned.all() and draw.allowed is not None else banned
