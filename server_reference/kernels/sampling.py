"""Draw the next token of every row on a device: the one that `sampler.py` draws on a host.

Nothing is read back, and what is launched depends on shapes only, so that it can be captured in a
graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .arguments import check_tensor
from .candidates import filled_up
from .launch import Configuration, launch
from .packed_draws import ALIGNED, PackedDraws
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
_PASS = 2048
"""Tokens that a program which passes over a whole row looks at at a time. Model: 8 KB in flight
and as many under way; twice of it spills on gfx942, in 8 warps as in 16 on sm_80."""
_NUM_WARPS = 8
_LEAST_PEAKS, _LEAST_CHUNKS = 8192, 128
"""Of a row, as powers of 2: one compiled kernel is for all vocabularies up to 524,288 tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of logits, and what becomes known of them on the way."""

    logits: Tensor  # [rows, vocab_size]
    block: int  # tokens of a block
    peaks: Tensor  # [rows, num_blocks]
    tokens: Tensor  # [rows]
    state: Tensor  # [rows, 4]
    totals: Tensor  # [rows]
    counts: Tensor  # [rows]

    @classmethod
    def of(cls, logits: Tensor) -> _Rows:
        num_rows, vocab_size = logits.shape
        block = next(block for most, block in _BLOCKS if vocab_size <= most)
        return cls(
            logits=logits,
            block=block,
            peaks=logits.new_empty(num_rows, _cdiv(vocab_size, block)),
            tokens=logits.new_empty(num_rows, dtype=torch.int64),
            state=logits.new_empty(num_rows, 4),
            totals=logits.new_empty(num_rows, dtype=torch.float64),
            counts=logits.new_empty(num_rows, dtype=torch.int32),
        )

    @property
    def num_blocks(self) -> int:
        return self.peaks.shape[1]

    @property
    def per_chunk(self) -> tuple[int, int]:
        """Rows, and the chunks of each: a grid, and the shape of what its programs leave."""
        return len(self.logits), _cdiv(self.logits.shape[1], _CHUNK)


def argmax(logits: Tensor) -> Tensor:
    """The likeliest token of each row; of equal ones the first.

    Args:
        logits: `[rows, vocab_size]`, fp32, contiguous.

    Returns:
        `[rows]`, int64; -1 where the logits hold a NaN or no finite maximum.

    Raises:
        ValueError: A shape, dtype or stride is not as above.

    Cost:
        Bound by memory: reads the logits once; of a vocabulary that is no multiple of 16, a copy.
    """
    check_tensor("logits", logits, (None, None), torch.float32)
    rows = _Rows.of(filled_up(logits, ALIGNED))
    _find_tops(rows, None)
    return rows.tokens


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
        them another five times. Besides, `apply_rules`, and a copy as `argmax` makes it.

    Source:
        Maddison et al., "A* Sampling", 2014 (the Gumbel-max trick).
    """
    check_tensor("logits", logits, (None, None), torch.float32)
    check_tensor("draws.params", draws.params, (len(logits), 6), torch.float64)
    changed = apply_rules(filled_up(logits, ALIGNED), draws)
    if draws.is_greedy:
        return argmax(changed)
    rows = _Rows.of(changed)
    _find_tops(rows, draws.params)
    _choose(rows, draws.params)
    _settle(rows, draws.params)
    return rows.tokens


def _find_tops(rows: _Rows, params: Tensor | None) -> None:
    """The likeliest token of each row; with params, the limit of its candidates as well."""
    sizes = rows.logits.shape[1], rows.num_blocks
    tiles = {"BLOCK": rows.block, "CHUNK": _CHUNK}
    launch(peaks_kernel, rows.per_chunk, (rows.peaks, rows.logits, *sizes), _configuration(**tiles))
    its = rows.tokens, rows.state, rows.counts, rows.peaks, rows.logits
    launch(
        top_kernel,
        rows.per_chunk[:1],
        (*its, params, *sizes, _NUM_WANTED),
        _configuration(BLOCK=rows.block, PEAKS=max(_power_of_2(rows.num_blocks), _LEAST_PEAKS)),
    )


def _choose(rows: _Rows, params: Tensor) -> None:
    """Gather the candidates, and draw from them."""
    (num_rows, num_chunks), vocab_size = rows.per_chunk, rows.logits.shape[1]
    scores = rows.logits.new_empty(num_rows, _MOST)
    tokens = rows.logits.new_empty(num_rows, _MOST, dtype=torch.int32)
    masses = rows.logits.new_empty(rows.per_chunk)
    found = scores, tokens, rows.counts, masses, rows.state
    launch(
        gather_kernel,
        rows.per_chunk,
        (*found, rows.peaks, rows.logits, params, vocab_size, rows.num_blocks),
        _configuration(MOST=_MOST, BLOCK=rows.block, CHUNK=_CHUNK),
    )
    known = rows.tokens, rows.state, rows.totals, rows.counts
    launch(
        choose_kernel,
        (num_rows,),
        (*known, masses, scores, tokens, params, vocab_size, num_chunks),
        _configuration(MOST=_MOST, CHUNKS=max(_power_of_2(num_chunks), _LEAST_CHUNKS)),
    )


def _settle(rows: _Rows, params: Tensor) -> None:
    """Draw from the whole rows that are left."""
    (num_rows, num_chunks), vocab_size = rows.per_chunk, rows.logits.shape[1]
    noisy, scores = (rows.logits.new_empty(rows.per_chunk) for _ in range(2))
    winners = rows.logits.new_empty(rows.per_chunk, dtype=torch.int32)
    known, whole = (rows.tokens, rows.state, rows.totals), (rows.logits, params)
    launch(
        challenge_kernel,
        rows.per_chunk,
        (noisy, scores, winners, *known, rows.peaks, *whole, vocab_size, rows.num_blocks),
        _configuration(BLOCK=rows.block, CHUNK=_CHUNK),
    )
    launch(
        settle_kernel,
        (num_rows,),
        (*known, noisy, scores, winners, *whole, vocab_size, num_chunks),
        _configuration(CHUNK=_PASS, CHUNKS=max(_power_of_2(num_chunks), _LEAST_CHUNKS)),
    )


def _configuration(**constants: int) -> Configuration:
    return Configuration(constants=tuple(constants.items()), num_warps=_NUM_WARPS)


def _cdiv(count: int, size: int) -> int:
    return -(-count // size)


def _power_of_2(count: int) -> int:
    return 1 << (count - 1).bit_length()
