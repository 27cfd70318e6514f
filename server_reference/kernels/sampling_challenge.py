"""Kernels that draw where the candidates do not decide: the whole row does, exactly.

Any token may win that is noisier than the one that leads. The noisiest is the draw if it is kept;
if not, then none after it is kept either, and the noisiest before it is next.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .sampling_candidates import AHEAD, AHEAD_SCORE, BEST, LIMIT, load_row, scores_of
from .sampling_noise import NO_TOKEN, first_of, noisiest

__all__ = ["challenge_kernel", "settle_kernel"]

_MAX_NOISE = tl.constexpr(22.9)  # noise.MAX_NOISE


@triton.jit(do_not_specialize=["num_blocks"])
def challenge_kernel(
    noisy_ptr,  # [rows, num_chunks]
    scores_ptr,  # [rows, num_chunks]
    winners_ptr,  # [rows, num_chunks]
    tokens_ptr,  # [rows]
    state_ptr,  # [rows, 4]
    totals_ptr,  # [rows]
    peaks_ptr,  # [rows, num_blocks]
    logits_ptr,  # [rows, vocab_size]
    params_ptr,  # [rows, 6]
    vocab_size,
    num_blocks,
    BLOCK: tl.constexpr,  # tokens of a block
    CHUNK: tl.constexpr,  # tokens of a program
):
    # One program per row and chunk: the noisiest token of it, or the one that leads.
    row = tl.program_id(0).to(tl.int64)
    state = state_ptr + 4 * row
    limit = tl.load(state + LIMIT)
    if limit == float("-inf"):
        return
    best, noisy, score = tl.load(state + BEST), tl.load(state + AHEAD), tl.load(state + AHEAD_SCORE)
    token = tl.load(tokens_ptr + row).to(tl.int32)
    key_low, key_high, scale, floor, _, top_p = load_row(params_ptr, row)
    low = tl.maximum(floor, noisy - _MAX_NOISE)
    low = tl.maximum(low, _least_kept(tl.load(totals_ptr + row), top_p, vocab_size))
    blocks = tl.program_id(1) * (CHUNK // BLOCK) + tl.arange(0, CHUNK // BLOCK)
    peaks = peaks_ptr + row * num_blocks + blocks
    peaks = tl.load(peaks, mask=blocks < num_blocks, other=float("-inf"))
    if scores_of(tl.max(peaks, axis=0), best, scale) >= low:
        offs = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
        scores = _scores(logits_ptr + row * vocab_size, offs, vocab_size, best, scale)
        can_win = (scores <= limit) & (scores >= low)
        noisy, score, token = noisiest(
            scores, offs, can_win, key_low, key_high, noisy, score, token
        )
    place = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(noisy_ptr + place, noisy)
    tl.store(scores_ptr + place, score)
    tl.store(winners_ptr + place, token)


@triton.jit
def _least_kept(total, top_p, vocab_size):
    """A score below which all tokens together have less than `top_p` leaves out."""
    left_out = (1.0 - top_p) * total / vocab_size
    is_bound = (total > 0) & (left_out > 0)
    least = tl.log(tl.where(is_bound, left_out, 1.0)).to(tl.float32) - 1e-3
    return tl.where(is_bound, least, float("-inf"))


@triton.jit
def _scores(logits_ptr, offs, vocab_size, best, scale):
    logits = tl.load(logits_ptr + offs, mask=offs < vocab_size, other=float("-inf"))
    return scores_of(logits, best, scale)


@triton.jit(do_not_specialize=["num_chunks"])
def settle_kernel(
    tokens_ptr,  # [rows]
    state_ptr,  # [rows, 4]
    totals_ptr,  # [rows]
    noisy_ptr,  # [rows, num_chunks]
    scores_ptr,  # [rows, num_chunks]
    winners_ptr,  # [rows, num_chunks]
    logits_ptr,  # [rows, vocab_size]
    params_ptr,  # [rows, 6]
    vocab_size,
    num_chunks,
    CHUNK: tl.constexpr,  # tokens that are looked at at a time
    CHUNKS: tl.constexpr,  # num_chunks, as a power of 2
):
    # One program per row: the noisiest token of all that is kept.
    row = tl.program_id(0).to(tl.int64)
    if tl.load(state_ptr + 4 * row + LIMIT) == float("-inf"):
        return
    chunks = tl.arange(0, CHUNKS)
    inside, offs = chunks < num_chunks, row * num_chunks + chunks
    noisy = tl.load(noisy_ptr + offs, mask=inside, other=float("-inf"))
    scores = tl.load(scores_ptr + offs, mask=inside, other=float("-inf"))
    winners = tl.load(winners_ptr + offs, mask=inside, other=NO_TOKEN)
    _, score, token = first_of(noisy, scores, winners)
    if (token == tl.load(tokens_ptr + row)) | (token == NO_TOKEN):
        return
    _, _, scale, floor, top_k, top_p = load_row(params_ptr, row)
    best, total = tl.load(state_ptr + 4 * row + BEST), tl.load(totals_ptr + row)
    logits_ptr += row * vocab_size
    if (top_p < 1.0) & (total < 0):
        total = _kept_mass(logits_ptr, vocab_size, best, scale, floor, top_k, CHUNK)
    share = tl.where(top_p < 1.0, total * top_p, float("inf"))
    is_kept = (top_p >= 1.0) & (top_k >= vocab_size)
    while is_kept == 0:
        num, mass = _before(logits_ptr, vocab_size, best, scale, score, token, CHUNK)
        is_kept = (num == 0) | ((num < top_k) & (mass < share))
        if is_kept == 0:
            its = logits_ptr, params_ptr, row, vocab_size, best
            score, token = _noisiest_before(*its, score, token, CHUNK)
    tl.store(tokens_ptr + row, token.to(tl.int64))


@triton.jit
def _before(logits_ptr, vocab_size, best, scale, score, token, CHUNK: tl.constexpr):
    """How many tokens are before one in the order of scores, equal ones by id; their mass."""
    num = tl.zeros([CHUNK], tl.int32)
    mass = tl.zeros([CHUNK], tl.float32)
    for start in tl.range(0, vocab_size, CHUNK, num_stages=2):
        offs = start + tl.arange(0, CHUNK)
        scores = _scores(logits_ptr, offs, vocab_size, best, scale)
        is_before = (scores > score) | ((scores == score) & (offs < token))
        num += is_before.to(tl.int32)
        mass += tl.where(is_before, tl.exp(scores), 0.0)
    return tl.sum(num, axis=0), tl.sum(mass.to(tl.float64), axis=0)


@triton.jit
def _noisiest_before(
    logits_ptr, params_ptr, row, vocab_size, best, score, token, CHUNK: tl.constexpr
):
    key_low, key_high, scale, _, _, _ = load_row(params_ptr, row)
    noisy, its_score, its = float("-inf"), float("-inf"), NO_TOKEN
    for start in tl.range(0, vocab_size, CHUNK, num_stages=2):
        offs = start + tl.arange(0, CHUNK)
        scores = _scores(logits_ptr, offs, vocab_size, best, scale)
        is_before = (scores > score) | ((scores == score) & (offs < token))
        noisy, its_score, its = noisiest(
            scores, offs, is_before, key_low, key_high, noisy, its_score, its
        )
    return its_score, its


@triton.jit
def _kept_mass(logits_ptr, vocab_size, best, scale, floor, top_k, CHUNK: tl.constexpr):
    """The mass that `min_p` and `top_k` leave of a row."""
    edge = _edge(logits_ptr, vocab_size, best, scale, top_k, CHUNK)
    num = tl.zeros([CHUNK], tl.int32)
    mass = tl.zeros([CHUNK], tl.float32)
    for start in tl.range(0, vocab_size, CHUNK, num_stages=2):
        scores = _scores(logits_ptr, start + tl.arange(0, CHUNK), vocab_size, best, scale)
        num += (scores > edge).to(tl.int32)
        mass += tl.where((scores > edge) & (scores >= floor), tl.exp(scores), 0.0)
    num_equal = tl.where(edge >= floor, top_k - tl.sum(num, axis=0), 0)  # kept, of the last ones
    return tl.sum(mass.to(tl.float64), axis=0) + num_equal * tl.exp(edge).to(tl.float64)


@triton.jit
def _edge(logits_ptr, vocab_size, best, scale, top_k, CHUNK: tl.constexpr):
    """The score of the last token that `top_k` keeps: digit by digit, of its 32 bits."""
    found, num_left = tl.zeros([], tl.int32), top_k
    bins = tl.arange(0, 256)
    for digit in range(4):
        shift = 24 - 8 * digit
        counts = tl.zeros([256], tl.int32)
        for start in tl.range(0, vocab_size, CHUNK, num_stages=2):
            offs = start + tl.arange(0, CHUNK)
            scores = _scores(logits_ptr, offs, vocab_size, best, scale)
            keys = tl.abs(scores).to(tl.int32, bitcast=True) >> shift  # of the best, 0
            counts += tl.histogram(keys & 255, 256, mask=(keys >> 8 == found) & (offs < vocab_size))
        num_whole = tl.sum((tl.cumsum(counts, axis=0) < num_left).to(tl.int32), axis=0)
        num_left -= tl.sum(tl.where(bins < num_whole, counts, 0), axis=0)
        found = found << 8 | num_whole
    return -found.to(tl.float32, bitcast=True)
