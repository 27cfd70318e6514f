"""The noise of `noise.py` on a device, for the kernels that draw, and who wins with it."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["MARGIN", "NO_TOKEN", "first_of", "gumbel", "hashes_of", "noisiest", "rough_gumbel"]

MARGIN = tl.constexpr(1 / 64)
"""`rough_gumbel` is off by less than half of it."""

NO_TOKEN = tl.constexpr(2**31 - 1)
"""Behind every token."""


@triton.jit
def hashes_of(token_ids, key_low, key_high):
    """32 even random bits for each token, as `noise.token_hashes` has them."""
    bits = token_ids.to(tl.uint32)
    for half in tl.static_range(2):
        bits ^= key_high if half else key_low
        bits ^= bits >> 16
        bits *= 0x85EBCA6B
        bits ^= bits >> 13
        bits *= 0xC2B2AE35
        bits ^= bits >> 16
    return bits


@triton.jit
def gumbel(hashes):
    """`noise.gumbel_noise`: rounded to fp32 once, at the end."""
    return (-tl.log(-tl.log((hashes.to(tl.float64) + 0.5) * 2.0**-32))).to(tl.float32)


@triton.jit
def rough_gumbel(hashes):
    """The same in fp32, where it takes a tenth of the time; off by 0.001 at most."""
    is_upper = hashes >= 0x80000000
    # The distance from 0 or from 1, whichever is nearer: near 1 fp32 would have no digits left.
    near = (tl.where(is_upper, ~hashes, hashes).to(tl.float32) + 0.5) * 2.0**-32
    exponential = -tl.log2(tl.where(is_upper, 1.0 - near, near)) * 0.6931471805599453
    series = near + 0.5 * near * near
    exponential = tl.where(is_upper & (near < 1 / 64), series, exponential)
    return -tl.log2(exponential) * 0.6931471805599453


@triton.jit
def first_of(noisy, scores, token_ids):
    """The largest of a row of sums of score and noise, of equal ones the largest score, of
    equal ones the first token: three scalars. `NO_TOKEN` where there is none above -inf.
    """
    best = tl.max(noisy, axis=0)
    is_best = (noisy == best) & (noisy > float("-inf"))
    score = tl.max(tl.where(is_best, scores, float("-inf")), axis=0)
    is_best &= scores == score
    return best, score, tl.min(tl.where(is_best, token_ids, NO_TOKEN), axis=0)


@triton.jit
def noisiest(scores, token_ids, can_win, key_low, key_high, noisy, score, token):
    """Who wins: one of a row of tokens that can, or whom the last three name.

    Cost:
        Rough noise for every token. The exact one is fp64, and so for those only, one by one,
        that the rough one leaves in doubt: one as a rule.
    """
    rough = tl.where(
        can_win, scores + rough_gumbel(hashes_of(token_ids, key_low, key_high)), float("-inf")
    )
    highest = tl.max(rough, axis=0)
    while (highest > float("-inf")) & (highest >= noisy - MARGIN):
        its = tl.min(tl.where(rough == highest, token_ids, NO_TOKEN), axis=0)
        is_it = token_ids == its
        its_score = tl.max(tl.where(is_it, scores, float("-inf")), axis=0)
        its_noisy = its_score + gumbel(hashes_of(its, key_low, key_high))
        is_first = (its_score > score) | ((its_score == score) & (its < token))
        wins = (its_noisy > noisy) | ((its_noisy == noisy) & is_first)
        noisy = tl.where(wins, its_noisy, noisy)
        score = tl.where(wins, its_score, score)
        token = tl.where(wins, its, token)
        rough = tl.where(is_it, float("-inf"), rough)
        highest = tl.max(rough, axis=0)
    return noisy, score, token
