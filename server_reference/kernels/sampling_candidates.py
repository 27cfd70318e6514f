"""Kernels that draw from the likeliest tokens of each row, and say where those do not decide.

As in `candidates.py`, a row is cut into blocks, and the largest logit of each is its peak. The
tokens above a limit between the peaks are the candidates. As in `sampler.py`, what is kept is
a beginning of the tokens in the order of their scores, equal ones by id.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .sampling_noise import NO_TOKEN, first_of, gumbel, hashes_of

__all__ = [
    "AHEAD",
    "AHEAD_SCORE",
    "BEST",
    "LIMIT",
    "choose_kernel",
    "gather_kernel",
    "load_row",
    "needs_total",
    "peaks_kernel",
    "scores_of",
    "top_kernel",
]

_MAX_NOISE = tl.constexpr(22.9)  # noise.MAX_NOISE
_NUM_BITS = tl.constexpr(20)  # of a limit: sign, exponent and 11 of the fraction
_OTHERS = tl.constexpr(4)  # candidates that all are compared with at a time

# What is known of a row, [rows, 4], fp32.
BEST = tl.constexpr(0)
"""Its largest logit."""
LIMIT = tl.constexpr(1)
"""Scores up to it are not looked at yet: -inf when the row is drawn, +inf before it is."""
AHEAD = tl.constexpr(2)
"""Score and noise of the token that leads."""
AHEAD_SCORE = tl.constexpr(3)
"""Its score."""


@triton.jit(do_not_specialize=["num_blocks"])
def peaks_kernel(
    peaks_ptr,  # [rows, num_blocks]
    logits_ptr,  # [rows, vocab_size]
    vocab_size,
    num_blocks,
    BLOCK: tl.constexpr,  # tokens of a block
    CHUNK: tl.constexpr,  # tokens of a program
):
    row = tl.program_id(0).to(tl.int64)
    blocks = tl.program_id(1) * (CHUNK // BLOCK) + tl.arange(0, CHUNK // BLOCK)
    offs = blocks[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]  # [CHUNK / BLOCK, BLOCK]
    logits = logits_ptr + row * vocab_size + offs
    logits = tl.load(logits, mask=offs < vocab_size, other=float("-inf"))
    # A NaN counts as infinite: either makes a row that cannot be drawn from.
    peaks = tl.max(tl.where(logits != logits, float("inf"), logits), axis=1)
    tl.store(peaks_ptr + row * num_blocks + blocks, peaks, mask=blocks < num_blocks)


@triton.jit(do_not_specialize=["num_blocks", "num_wanted"])
def top_kernel(
    tokens_ptr,  # [rows]
    state_ptr,  # [rows, 4]
    counts_ptr,  # [rows]
    peaks_ptr,  # [rows, num_blocks]
    logits_ptr,  # [rows, vocab_size]
    params_ptr,  # [rows, 6], or None: all rows are greedy
    vocab_size,
    num_blocks,
    num_wanted,  # candidates, about
    BLOCK: tl.constexpr,  # tokens of a block
    PEAKS: tl.constexpr,  # num_blocks, as a power of 2
):
    # One program per row: its likeliest token, and the limit above which candidates are.
    row = tl.program_id(0).to(tl.int64)
    blocks = tl.arange(0, PEAKS)
    peaks = peaks_ptr + row * num_blocks + blocks
    peaks = tl.load(peaks, mask=blocks < num_blocks, other=float("-inf"))  # [PEAKS]
    best = tl.max(peaks, axis=0)
    is_usable = (best > float("-inf")) & (best < float("inf"))
    block = tl.min(tl.where(peaks == best, blocks, PEAKS), axis=0)
    offs = block * BLOCK + tl.arange(0, BLOCK)
    logits = logits_ptr + row * vocab_size + offs
    logits = tl.load(logits, mask=offs < vocab_size, other=float("-inf"))
    token = tl.min(tl.where(logits == best, offs, NO_TOKEN), axis=0)
    tl.store(tokens_ptr + row, tl.where(is_usable, token, -1).to(tl.int64))
    if params_ptr is not None:
        scale = tl.load(params_ptr + 6 * row + 2).to(tl.float32)
        limit = float("inf")
        if is_usable & (scale > 0):
            limit = (_largest(peaks, num_wanted) - best) * scale
        tl.store(state_ptr + 4 * row + BEST, best)
        tl.store(state_ptr + 4 * row + LIMIT, limit)
        tl.store(counts_ptr + row, 0)


@triton.jit
def _largest(values, count):
    """A number that fewer than about `count` of a row are above; -inf where it has no more."""
    bits = values.to(tl.uint32, bitcast=True)
    keys = bits ^ tl.where((bits >> 31) != 0, 0xFFFFFFFF, 0x80000000)  # in the numbers' order
    found = tl.zeros([], tl.uint32)
    for at in range(_NUM_BITS):
        tried = found | (tl.full([], 0x80000000, tl.uint32) >> at)
        found = tl.where(tl.sum((keys >= tried).to(tl.int32), axis=0) >= count, tried, found)
    bits = tl.where((found >> 31) != 0, found ^ 0x80000000, ~found)
    # Keys below this are those of -inf, and of no number.
    return tl.where(found < 0x00800000, float("-inf"), bits.to(tl.float32, bitcast=True))


@triton.jit
def load_row(params_ptr, row):
    """Its `PackedDraws.params`."""
    at = params_ptr + 6 * row
    key_low, key_high = tl.load(at).to(tl.uint32), tl.load(at + 1).to(tl.uint32)
    scale, floor = tl.load(at + 2).to(tl.float32), tl.load(at + 3).to(tl.float32)
    return key_low, key_high, scale, floor, tl.load(at + 4).to(tl.int32), tl.load(at + 5)


@triton.jit
def scores_of(logits, best, scale):
    """Logits above the likeliest's, divided by the temperature: 0 and below."""
    return (logits - best) * scale


@triton.jit
def needs_total(limit, floor, top_k, top_p, vocab_size):
    """Whether `top_p` is a share of more than candidates, and of all that `min_p` keeps."""
    return (top_p < 1.0) & (top_k >= vocab_size) & (floor <= limit) & (limit < float("inf"))


@triton.jit(do_not_specialize=["num_blocks"])
def gather_kernel(
    found_scores_ptr,  # [rows, most]
    found_tokens_ptr,  # [rows, most]
    counts_ptr,  # [rows]
    masses_ptr,  # [rows, num_chunks]
    state_ptr,  # [rows, 4]
    peaks_ptr,  # [rows, num_blocks]
    logits_ptr,  # [rows, vocab_size]
    params_ptr,  # [rows, 6]
    vocab_size,
    num_blocks,
    MOST: tl.constexpr,  # candidates of a row, at most
    BLOCK: tl.constexpr,  # tokens of a block
    CHUNK: tl.constexpr,  # tokens of a program
):
    row = tl.program_id(0).to(tl.int64)
    best, limit = tl.load(state_ptr + 4 * row + BEST), tl.load(state_ptr + 4 * row + LIMIT)
    if limit == float("inf"):
        return
    _, _, scale, floor, top_k, top_p = load_row(params_ptr, row)
    blocks = tl.program_id(1) * (CHUNK // BLOCK) + tl.arange(0, CHUNK // BLOCK)
    peaks = peaks_ptr + row * num_blocks + blocks
    peaks = tl.load(peaks, mask=blocks < num_blocks, other=float("-inf"))
    is_summed = needs_total(limit, floor, top_k, top_p, vocab_size)
    is_read = scores_of(peaks, best, scale) > tl.where(is_summed, float("-inf"), limit)
    offs = blocks[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]  # [CHUNK / BLOCK, BLOCK]
    logits = logits_ptr + row * vocab_size + offs
    logits = tl.load(logits, mask=(offs < vocab_size) & is_read[:, None], other=float("-inf"))
    scores = scores_of(logits, best, scale)
    taken = scores > limit
    # In any order: the next kernel compares each with each.
    place = tl.atomic_add(counts_ptr + row + offs * 0, 1, mask=taken, sem="relaxed")
    taken &= place < MOST
    tl.store(found_scores_ptr + row * MOST + place, scores, mask=taken)
    tl.store(found_tokens_ptr + row * MOST + place, offs, mask=taken)
    if is_summed:
        mass = tl.sum(tl.where(scores >= floor, tl.exp(scores), 0.0))
        tl.store(masses_ptr + row * tl.num_programs(1) + tl.program_id(1), mass)


@triton.jit(do_not_specialize=["num_chunks"])
def choose_kernel(
    tokens_ptr,  # [rows]
    state_ptr,  # [rows, 4]
    totals_ptr,  # [rows]
    counts_ptr,  # [rows]
    masses_ptr,  # [rows, num_chunks]
    found_scores_ptr,  # [rows, most]
    found_tokens_ptr,  # [rows, most]
    params_ptr,  # [rows, 6]
    vocab_size,
    num_chunks,
    MOST: tl.constexpr,  # candidates of a row, at most
    CHUNKS: tl.constexpr,  # num_chunks, as a power of 2
):
    # One program per row: what it keeps of its candidates, and which of those leads.
    row = tl.program_id(0).to(tl.int64)
    limit, count = tl.load(state_ptr + 4 * row + LIMIT), tl.load(counts_ptr + row)
    if limit == float("inf"):
        tl.store(state_ptr + 4 * row + LIMIT, float("-inf"))
        return
    key_low, key_high, _, floor, top_k, top_p = load_row(params_ptr, row)
    total = tl.full([], -1.0, tl.float64)  # not known
    if needs_total(limit, floor, top_k, top_p, vocab_size):
        total = _sum(masses_ptr + row * num_chunks, num_chunks, CHUNKS)
    # Whether all that may be kept are candidates.
    is_all = (top_k <= count) | (floor > limit) | (limit == float("-inf"))
    noisy, score, token, left = float("-inf"), float("-inf"), NO_TOKEN, float("inf")
    if (count <= MOST) & (is_all | (top_p >= 1.0) | (total >= 0)):
        scores, tokens = found_scores_ptr + row * MOST, found_tokens_ptr + row * MOST
        scores, tokens, rank, mass = _in_order(scores, tokens, count, MOST)
        kept, is_full = _kept(scores, rank, mass, total, is_all, floor, top_k, top_p)
        noise = tl.where(kept, gumbel(hashes_of(tokens, key_low, key_high)), float("-inf"))
        noisy, score, token = first_of(scores + noise, scores, tokens)
        is_drawn = is_all | is_full | (noisy - limit >= _MAX_NOISE)
        left = tl.where(is_drawn & (token != NO_TOKEN), float("-inf"), limit)
    tl.store(tokens_ptr + row, token, mask=token != NO_TOKEN)
    tl.store(totals_ptr + row, total)
    tl.store(state_ptr + 4 * row + LIMIT, left)
    tl.store(state_ptr + 4 * row + AHEAD, noisy)
    tl.store(state_ptr + 4 * row + AHEAD_SCORE, score)


@triton.jit
def _sum(values_ptr, count, PADDED: tl.constexpr):
    offs = tl.arange(0, PADDED)
    return tl.sum(tl.load(values_ptr + offs, mask=offs < count, other=0.0).to(tl.float64), axis=0)


@triton.jit
def _in_order(scores_ptr, tokens_ptr, count, MOST: tl.constexpr):
    """The candidates, and how many are before each and with what mass; no sort is needed."""
    offs = tl.arange(0, MOST)
    scores = tl.load(scores_ptr + offs, mask=offs < count, other=float("-inf"))  # [MOST]
    tokens = tl.load(tokens_ptr + offs, mask=offs < count, other=NO_TOKEN)
    rank = tl.zeros([MOST], tl.int32)
    mass = tl.zeros([MOST], tl.float64)
    for start in range(0, count, _OTHERS):
        others = start + tl.arange(0, _OTHERS)
        score = tl.load(scores_ptr + others, mask=others < count, other=float("-inf"))[None, :]
        token = tl.load(tokens_ptr + others, mask=others < count, other=NO_TOKEN)[None, :]
        is_first = (score == scores[:, None]) & (token < tokens[:, None])
        is_first |= score > scores[:, None]  # [MOST, OTHERS]
        rank += tl.sum(is_first.to(tl.int32), axis=1)
        mass += tl.sum(tl.where(is_first, tl.exp(score).to(tl.float64), 0.0), axis=1)
    return scores, tokens, rank, mass


@triton.jit
def _kept(scores, rank, mass, total, is_all, floor, top_k, top_p):
    """Which candidates are kept, and whether what they keep is all that `top_p` does."""
    left = (scores >= floor) & (scores > float("-inf")) & (rank < top_k)
    own = tl.sum(tl.where(left, tl.exp(scores).to(tl.float64), 0.0), axis=0)
    share = tl.where(is_all, own, total) * top_p
    share = tl.where(top_p < 1.0, share, float("inf"))
    return left & ((rank == 0) | (mass < share)), own >= share
