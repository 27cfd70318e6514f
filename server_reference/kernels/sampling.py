"""Draw the next token of every row on a device: the one that `sampler.py` draws on a host.

Nothing is read back, and what is launched depends on shapes only, so that it can be captured in a
graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from .launch import Configuration, launch
from .packed_draws import PackedDraws
from .sampling_candidates import choose_kernel, gather_kernel, peaks_kernel, top_kernel
from .sampling_challenge import challenge_kernel, settle_kernel
from .sampling_rules import apply_rules

__all__ = ["argmax", "draw_tokens"]

_BLOCKS = ((4096, 4), (2**31, 64))
"""Tokens of a block, for vocabularies up to so many. Model: 64 fp32 are two lines of memory, and
leave one peak for 64 logits; a small vocabulary is to have as many blocks as candidates."""
_CHUNK = 4096
"""Tokens of a program. Model: 16 KB in flight for each, so that 37 programs share the 600 KB of a
row of 150,000 tokens; 16 values for each of 256 threads."""
_NUM_WANTED, _MOST = 128, 512
"""Candidates of a row: about, and at most. Model: `top_k` up to 127 never needs the whole row;
comparing each with each costs 16 * 512 operations for 16 of them, less than reading a chunk."""
_NUM_WARPS = 8


@dataclass(frozen=True, slots=True)
class _Shape:
    """Measures of a batch of rows."""

    num_rows: int
    vocab_size: int

    @property
    def block(self) -> int:
        return next(block for most, block in _BLOCKS if self.vocab_size <= most)

    @property
    def num_blocks(self) -> int:
        return triton.cdiv(self.vocab_size, self.block)

    @property
    def num_chunks(self) -> int:
        return triton.cdiv(self.vocab_size, _CHUNK)


def argmax(logits: Tensor) -> Tensor:
    """The likeliest token of each row; of equal ones the first.

    Args:
        logits: `[rows, vocab_size]`, fp32, contiguous.

    Returns:
        `[rows]`, int64; -1 where the logits hold a NaN or no finite maximum.

    Raises:
        ValueError: A shape, dtype or stride is not as above.

    Cost:
        Bound by memory: reads the logits once.
    """
    shape = _shape_of(logits)
    peaks, tokens = _peaks(shape, logits), _empty(logits, torch.int64, shape.num_rows)
    _top(shape, tokens, tokens, tokens, peaks, logits, None)
    return tokens


def draw_tokens(logits: Tensor, draws: PackedDraws) -> Tensor:
    """Draw the next token of each row.

    It is the token that `sampler.sample` draws, with one exception: sums of probabilities are
    rounded otherwise, so that a token may be kept by one and not by the other where the
    probabilities before it come to within a millionth of `top_p`'s share.

    Args:
        logits: `[rows, vocab_size]`, fp32, contiguous; they stay as they are.
        draws: One for each row.

    Returns:
        `[rows]`, int64; -1 where the logits hold a NaN or no finite maximum.

    Raises:
        ValueError: A shape, dtype or stride is not as above.

    Cost:
        Bound by memory. Reads the logits once for the peaks of blocks; once more, where a
        `top_p` below 1 comes with no `top_k`, for the whole mass; once more for rows whose
        candidates leave it open who wins, as those of a high temperature do; and twice for
        each winner that then turns out not to be kept. `top_k` above 512 with `top_p` reads
        them another five times. Besides, `apply_rules`.

    Source:
        Maddison et al., "A* Sampling", 2014 (the Gumbel-max trick).
    """
    shape = _shape_of(logits)
    wanted = (shape.num_rows, 6)
    if draws.params.shape != wanted or draws.params.dtype != torch.float64:
        raise ValueError(f"there must be fp64 params of {[*wanted]}, not {[*draws.params.shape]}")
    logits = apply_rules(logits, draws)
    if draws.is_greedy:
        return argmax(logits)
    peaks, tokens = _peaks(shape, logits), _empty(logits, torch.int64, shape.num_rows)
    state = _empty(logits, torch.float32, shape.num_rows, 4)
    totals = _empty(logits, torch.float64, shape.num_rows)
    counts = _empty(logits, torch.int32, shape.num_rows)
    _top(shape, tokens, state, counts, peaks, logits, draws.params)
    _choose(shape, tokens, state, totals, counts, peaks, logits, draws.params)
    _settle(shape, tokens, state, totals, peaks, logits, draws.params)
    return tokens


def _shape_of(logits: Tensor) -> _Shape:
    if logits.ndim != 2 or logits.dtype != torch.float32 or not logits.is_contiguous():
        raise ValueError(
            f"logits must be contiguous rows of fp32, not {[*logits.shape]} of {logits.dtype} and "
            f"strides {logits.stride()}"
        )
    return _Shape(*logits.shape)


def _empty(like: Tensor, dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=like.device)


def _configuration(**constants: int) -> Configuration:
    return Configuration(constants=tuple(constants.items()), num_warps=_NUM_WARPS)


def _peaks(shape: _Shape, logits: Tensor) -> Tensor:
    peaks = _empty(logits, torch.float32, shape.num_rows, shape.num_blocks)
    launch(
        peaks_kernel,
        (shape.num_rows, shape.num_chunks),
        (peaks, logits, shape.vocab_size, shape.num_blocks),
        _configuration(BLOCK=shape.block, CHUNK=_CHUNK),
    )
    return peaks


def _top(
    shape: _Shape,
    tokens: Tensor,
    state: Tensor,
    counts: Tensor,
    peaks: Tensor,
    logits: Tensor,
    params: Tensor | None,
) -> None:
    its = logits if params is None else params
    sizes = shape.vocab_size, shape.num_blocks, _NUM_WANTED
    launch(
        top_kernel,
        (shape.num_rows,),
        (tokens, state, counts, peaks, logits, its, *sizes),
        _configuration(
            IS_GREEDY=params is None,
            BLOCK=shape.block,
            PEAKS=triton.next_power_of_2(shape.num_blocks),
        ),
    )


def _choose(
    shape: _Shape,
    tokens: Tensor,
    state: Tensor,
    totals: Tensor,
    counts: Tensor,
    peaks: Tensor,
    logits: Tensor,
    params: Tensor,
) -> None:
    scores = _empty(logits, torch.float32, shape.num_rows, _MOST)
    found = _empty(logits, torch.int32, shape.num_rows, _MOST)
    masses = _empty(logits, torch.float32, shape.num_rows, shape.num_chunks)
    launch(
        gather_kernel,
        (shape.num_rows, shape.num_chunks),
        (scores, found, counts, masses, state, peaks, logits, params)
        + (shape.vocab_size, shape.num_blocks),
        _configuration(MOST=_MOST, BLOCK=shape.block, CHUNK=_CHUNK),
    )
    launch(
        choose_kernel,
        (shape.num_rows,),
        (tokens, state, totals, counts, masses, scores, found, params)
        + (shape.vocab_size, shape.num_chunks),
        _configuration(MOST=_MOST, CHUNKS=triton.next_power_of_2(shape.num_chunks)),
    )


def _settle(
    shape: _Shape,
    tokens: Tensor,
    state: Tensor,
    totals: Tensor,
    peaks: Tensor,
    logits: Tensor,
    params: Tensor,
) -> None:
    size = shape.num_rows, shape.num_chunks
    noisy, scores = (_empty(logits, torch.float32, *size) for _ in range(2))
    winners = _empty(logits, torch.int32, *size)
    launch(
        challenge_kernel,
        size,
        (noisy, scores, winners, tokens, state, totals, peaks, logits, params)
        + (shape.vocab_size, shape.num_blocks),
        _configuration(BLOCK=shape.block, CHUNK=_CHUNK),
    )
    launch(
        settle_kernel,
        (shape.num_rows,),
        (tokens, noisy, scores, winners, state, totals, logits, params)
        + (shape.vocab_size, shape.num_chunks),
        _configuration(CHUNK=_CHUNK, CHUNKS=triton.next_power_of_2(shape.num_chunks)),
    )
