"""What rows are sampled with, as arrays that a device reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import inf, log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .draw import Draw
from .noise import draw_key
from .transfer import send

__all__ = ["ALIGNED", "Bias", "Masks", "PackedDraws", "Penalties", "draw_params", "greedy_params"]

ALIGNED = 16
"""Kernels are compiled for rows of so many tokens, or a multiple; a vocabulary to which tokens were
added may have 32,003, and its rows are filled up."""


@dataclass(frozen=True, slots=True, eq=False)
class Penalties:
    """Of rows whose logits depend on the tokens before them.

    Args:
        rows: Which they are, `[num_penalties]`, int32.
        factors: Repetition, frequency and presence penalty of each, `[num_penalties, 3]`, fp64.
        history: Tokens of sequences, `[num_sequences, max_context]`, int32.
        places: For each, which row of `history` is its own, how many tokens of that are its
            prompt, and how many there are, `[num_penalties, 3]`, int32.
    """

    rows: Tensor
    factors: Tensor
    history: Tensor
    places: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Bias:
    """What is added to single logits.

    Args:
        places: Row and token of each, no two alike, `[num_biases, 2]`, int32.
        values: Added one after the other, `[num_biases, most]`, fp32; fewer are filled up
            with 0. Minus infinity bans a token.
    """

    places: Tensor
    values: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Masks:
    """What grammars allow.

    Args:
        rows: Of which rows, `[num_masks]`, int32.
        bits: A bit for each token, `[num_masks, num_words]`, int32; tokens beyond are not
            allowed.
    """

    rows: Tensor
    bits: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class PackedDraws:
    """One draw for each row of logits.

    Args:
        params: `[rows, 6]`, fp64: the lower and the upper half of its `draw_key`, one over the
            temperature in fp32 (0: greedy), the score below which `min_p` keeps none in fp32,
            `top_k` (the vocabulary's size, filled up to `ALIGNED`: all), and `top_p`.
        is_greedy: All rows are.
        penalties: And what follows: `None` where no row has any.
    """

    params: Tensor
    is_greedy: bool
    penalties: Penalties | None = None
    bias: Bias | None = None
    masks: Masks | None = None

    @classmethod
    def of(
        cls, draws: Sequence[Draw], *, vocab_size: int, device: torch.device | str = "cpu"
    ) -> PackedDraws:
        """Pack draws, whose prompts and outputs are known on the host."""

        def sent(values: NDArray[np.generic]) -> Tensor:
            return send(values, torch.device(device))

        penalties, bias, masks = _penalties(draws), _bias(draws), _masks(draws, vocab_size)
        return cls(
            params=sent(draw_params(draws, vocab_size)),
            is_greedy=all(draw.is_greedy for draw in draws),
            penalties=Penalties(*map(sent, penalties)) if penalties else None,
            bias=Bias(*map(sent, bias)) if bias else None,
            masks=Masks(*map(sent, masks)) if masks else None,
        )


def draw_params(draws: Sequence[Draw], vocab_size: int) -> NDArray[np.float64]:
    """What `PackedDraws.params` has, on the host."""
    return np.array([_params(draw, vocab_size) for draw in draws]).reshape(-1, 6)


def greedy_params(num_rows: int) -> NDArray[np.float64]:
    """The same, of rows that draw the likeliest token."""
    return np.tile((0.0, 0.0, 0.0, -inf, 1.0, 1.0), (num_rows, 1))


def _params(draw: Draw, vocab_size: int) -> tuple[float, ...]:
    its, key = draw.params, draw_key(draw.seed, draw.index)
    most = vocab_size + -vocab_size % ALIGNED
    return (
        key & 0xFFFFFFFF,
        key >> 32,
        0.0 if draw.is_greedy else float(np.float32(1.0 / its.temperature)),
        float(np.float32(log(its.min_p))) if its.min_p > 0.0 else -inf,
        min(its.top_k or most, most),
        its.top_p,
    )


def _penalties(draws: Sequence[Draw]) -> list[NDArray[np.generic]] | None:
    rows = [row for row, draw in enumerate(draws) if draw.repeats or draw.counts]
    if not rows:
        return None
    known = [[*draws[row].prompt, *draws[row].output] for row in rows]
    history = np.zeros((len(rows), max(1, *map(len, known))), np.int32)
    for at, tokens in enumerate(known):
        history[at, : len(tokens)] = tokens
    its = [draws[row].params for row in rows]
    factors = [(p.repetition_penalty, p.frequency_penalty, p.presence_penalty) for p in its]
    lens = [(at, len(draws[row].prompt), len(known[at])) for at, row in enumerate(rows)]
    return [np.array(rows, np.int32), np.array(factors), history, np.array(lens, np.int32)]


def _bias(draws: Sequence[Draw]) -> list[NDArray[np.generic]] | None:
    added: dict[tuple[int, int], list[float]] = {}
    for row, draw in enumerate(draws):
        for token, bias in draw.params.logit_bias:
            added.setdefault((row, token), []).append(bias)
        if draw.allowed is None:  # else the mask says so
            for token in draw.banned:
                added.setdefault((row, token), []).append(-inf)
    if not added:
        return None
    values = np.array([*zip_longest(*added.values(), fillvalue=0.0)], np.float32)
    return [np.array([*added], np.int32), np.ascontiguousarray(values.T)]


def _masks(draws: Sequence[Draw], vocab_size: int) -> list[NDArray[np.generic]] | None:
    rows = [row for row, draw in enumerate(draws) if draw.allowed is not None]
    if not rows:
        return None
    bits = np.zeros((len(rows), -(-vocab_size // 32)), np.int32)
    for at, row in enumerate(rows):
        own = _mask(draws[row], vocab_size)[: bits.shape[1]]
        bits[at, : len(own)] = own
    return [np.array(rows, np.int32), bits]


def _mask(draw: Draw, vocab_size: int) -> NDArray[np.int32]:
    """What a grammar allows without what is banned, where that leaves anything."""
    assert draw.allowed is not None
    allowed: NDArray[np.int32] = draw.allowed.numpy()
    if not draw.banned:
        return allowed
    left = np.unpackbits(allowed.view(np.uint8), bitorder="little")
    left[[token for token in draw.banned if token < len(left)]] = 0
    if not left[:vocab_size].any():
        return allowed
    return np.packbits(left, bitorder="little").view(np.int32)
