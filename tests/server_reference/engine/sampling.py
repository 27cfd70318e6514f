"""The plain way to sample, in float64: change every logit, sort all, add all the noise."""

from __future__ import annotations

import math

import numpy as np
import torch

from server_reference.core import SamplingParams
from server_reference.kernels.draw import Draw
from server_reference.kernels.noise import draw_key, token_hashes

NAN, INF = math.nan, math.inf


def a_draw(*, seed=0, index=0, prompt=(), output=(), allowed=None, banned=(), **params):
    params = SamplingParams(max_tokens=1, **params)
    return Draw(params, seed, index, prompt, output, allowed, banned)


def a_mask(tokens, vocab_size):
    """The bits of a grammar that allows `tokens`."""
    bits = np.zeros(-(-vocab_size // 32) * 32, np.uint8)
    bits[list(tokens)] = 1
    return torch.from_numpy(np.packbits(bits, bitorder="little").view(np.int32))


def wide_logits(*, vocab_size=1000, seed=0, scale=1.0):
    return torch.randn(vocab_size, generator=torch.Generator().manual_seed(seed)) * scale


def ruled(row, draw):
    """One row's logits after penalties, bias, grammar and ban, a token at a time."""
    params, logits = draw.params, [float(value) for value in row]
    for token in {*draw.prompt, *draw.output}:
        penalty = params.repetition_penalty
        logits[token] *= 1 / penalty if logits[token] > 0 else penalty
    for token in set(draw.output):
        count = list(draw.output).count(token)
        logits[token] -= params.frequency_penalty * count + params.presence_penalty
    for token, bias in params.logit_bias:
        logits[token] += bias
    for token in range(len(logits)):
        if draw.allowed is not None and not int(draw.allowed[token // 32]) >> token % 32 & 1:
            logits[token] = -INF
    before = list(logits)
    for token in draw.banned:
        logits[token] = -INF
    hides_all = max(logits) == -INF and draw.allowed is not None
    return np.array(before if hides_all else logits)


def plainly_drawn(row, draw):
    """The token, and whether rounding in fp32 could not have led to another."""
    params, logits = draw.params, ruled(row, draw)
    if params.temperature == 0.0:
        return int(logits.argmax()), _is_apart(logits)
    scores = (logits - logits.max()) / params.temperature
    order = np.argsort(-scores, kind="stable")
    floor = math.log(params.min_p) if params.min_p else -INF
    order = order[(scores[order] >= floor) & (scores[order] > -INF)][: params.top_k]
    mass = np.exp(scores[order])
    before = (np.cumsum(mass) - mass) / mass.sum()
    kept = order[(before < params.top_p) | (np.arange(len(order)) == 0)]
    key = draw_key(draw.seed, draw.index)
    (hashes,) = token_hashes([key], np.arange(len(row), dtype=np.uint32)[None])
    noisy = scores - np.log(-np.log((hashes + 0.5) / 2.0**32))
    clear = (np.abs(before - params.top_p) > 1e-5).all() or params.top_p >= 1.0
    if floor > -INF:
        clear = clear and (np.abs(scores - floor) > 1e-4).all()
    return int(kept[noisy[kept].argmax()]), clear and _is_apart(noisy[kept])


def _is_apart(values):
    """Whether the largest one is by more than rounding, or equal to others exactly."""
    first, second = np.sort(np.append(values, -INF))[:-3:-1]
    return first - second > 1e-3 or first == second
