"""The closed loop that all engines run: the same requests in the same order."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

__all__ = ["MOST", "Request", "closed_loop", "lengths"]

MOST = 512
"""Tokens that a prompt or an output may have."""


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, and how many tokens to answer it with; none of them ends a text."""

    prompt: list[int]
    output: int


def lengths(draw: random.Random, *, mu: float, sigma: float, most: int) -> int:
    """One length, lognormal and clipped to 1 to `most`."""
    return min(most, max(1, round(draw.lognormvariate(mu, sigma))))


def closed_loop(
    *, rows: int, mean: int, sigma: float, vocabulary: list[int], seed: int, **_: Any
) -> Iterator[Request]:
    """Requests without end; `rows` of them run at any time, and each that ends starts the next.

    The first ones are found somewhere in the middle of their outputs, as in a loop that has
    run for long.

    Args:
        mean: Of prompts and of outputs, before clipping; with `sigma` 0 every prompt has so
            many tokens, and no output ends.
        vocabulary: First token id that a prompt may have, and the one after the last.
    """
    draw = random.Random(seed)
    mu = math.log(mean) - sigma * sigma / 2
    for number in count():
        prompt = lengths(draw, mu=mu, sigma=sigma, most=MOST)
        output = lengths(draw, mu=mu, sigma=sigma, most=MOST) if sigma else 2 * MOST
        if sigma and number < rows:
            output = max(1, round(output * draw.random()))
        yield Request([draw.randrange(*vocabulary) for _ in range(prompt)], output)
