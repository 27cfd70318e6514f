"""What the likeliest tokens of a row cannot decide: the whole row does, exactly."""

from __future__ import annotations

from bisect import bisect_left
from math import inf, log
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..core import SamplingParams
from .noise import MAX_NOISE, gumbel_noise, least_hash, token_hashes

__all__ = ["Row", "Scores", "WholeRows", "floor_of"]

Scores = NDArray[np.float32]
"""Logits above the likeliest's, divided by the temperature: 0 and below."""

_FAR = 8.0  # a token this far below the best one wins only with noise above it
_FAR_HASH = least_hash(_FAR)


def floor_of(params: SamplingParams) -> float:
    """The score below which `min_p` keeps no token."""
    return log(params.min_p) if params.min_p > 0.0 else -inf


class Row(NamedTuple):
    """One row of logits, `[vocab_size]`, the largest of them, and one over its temperature."""

    logits: Scores
    best: np.float32
    scale: np.float32
    params: SamplingParams


class WholeRows:
    """Rows of `vocab_size`, one after the other in the same memory.

    Cost:
        49,152 tokens on one core: a total 0.05 ms; a challenge 0.1 ms where few tokens can
        win, 0.25 ms where all can, and 0.1 ms more for each that wins but is not kept.
    """

    def __init__(self, vocab_size: int) -> None:
        # Fresh memory for each row would cost more than what is done with it.
        self._scores = np.empty(vocab_size, np.float32)

    def total(self, row: Row) -> float:
        """The mass that `min_p` and `top_k` leave, in units of the likeliest's."""
        scores, top_k = self._scored(row), row.params.top_k
        if top_k is not None and top_k < len(scores):
            scores = np.partition(scores, -top_k)[-top_k:]
        if row.params.min_p > 0.0:
            scores = scores[scores >= floor_of(row.params)]
        return float(torch.from_numpy(scores).exp_().sum())  # faster than numpy's

    def challenge(self, row: Row, *, key: int, total: float, leader: tuple[int, float]) -> int:
        """The token to draw, where `leader` has the largest score and noise so far.

        `key` is the `draw_key`, and `total` as above, of use with `top_p` only.
        """
        (token, ahead), top_p = leader, row.params.top_p
        scores = self._scored(row)
        floor = max(ahead - MAX_NOISE, floor_of(row.params))
        if top_p < 1.0:  # what is below adds up to less than `top_p` leaves out
            floor = max(floor, log((1.0 - top_p) * total / len(scores)) - 1e-3)
        ids, own = np.arange(len(scores)), scores
        can_win = scores >= floor
        if 4 * np.count_nonzero(can_win) < len(scores):
            ids = np.flatnonzero(can_win)
            own = scores[ids]
        hashes = token_hashes([key], ids.astype(np.uint32)[None])[0]
        near = np.flatnonzero((own >= ahead - _FAR) | (hashes >= _FAR_HASH))
        noisy = own[near] + gumbel_noise(hashes[near])
        winning = np.flatnonzero((noisy > ahead) & (own[near] >= floor))
        found = _best_kept(scores, ids[near[winning]], noisy[winning], row.params, total)
        return token if found is None else found

    def _scored(self, row: Row) -> Scores:
        np.subtract(row.logits, row.best, out=self._scores)
        return np.multiply(self._scores, row.scale, out=self._scores)


def _best_kept(
    scores: Scores, ids: NDArray[np.intp], noisy: Scores, params: SamplingParams, total: float
) -> int | None:
    """Of `ids`, which ascend and none of which `min_p` drops, the noisiest that is kept."""
    if not len(ids):
        return None
    best = ids[noisy == noisy.max()]
    first = int(best[scores[best].argmax()])
    if _keeps(scores, first, params, total):
        return first
    order = np.argsort(-scores[ids], kind="stable")
    ids, noisy = ids[order], noisy[order]
    num_kept = bisect_left(
        ids.tolist(), True, key=lambda token: not _keeps(scores, token, params, total)
    )
    return int(ids[noisy[:num_kept].argmax()]) if num_kept else None


def _keeps(scores: Scores, token: int, params: SamplingParams, total: float) -> bool:
    """Whether `top_k` and `top_p` leave this token; equal ones go by id."""
    if params.top_k is None and params.top_p >= 1.0:
        return True
    above = scores > scores[token]
    above[:token] |= scores[:token] == scores[token]
    num_above = np.count_nonzero(above)
    if not num_above or num_above >= (params.top_k or len(scores)):
        return not num_above
    return params.top_p >= 1.0 or bool(np.exp(scores[above]).sum() < params.top_p * total)
