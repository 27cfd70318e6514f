"""Turn a step of the scheduler into the arrays that a model runs on.

The arrays are NumPy's: the same for every device, and built without a loop per token.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ..core import Sequence
from .scheduler import Scheduled, Step

__all__ = ["Batch", "build_batch"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """All sequences of one step, end to end, those with one token first.

    Attributes:
        token_ids: Input tokens, `[num_tokens]`.
        positions: Place of each in its sequence, `[num_tokens]`.
        slots: Where each one's key and value go, `[num_tokens]`.
        query_start: First row of each sequence, and the end, `[num_seqs + 1]`.
        context_lens: Tokens in the cache, these included, `[num_seqs]`.
        block_table: KV blocks of each sequence, `[num_seqs, max_blocks_per_seq]`. Past
            its last block a row repeats its first one: safe to read, to be masked.
        num_decodes: The first so many sequences have one token each.
        sample_rows: Rows whose logits are needed, `[num_samples]`.
        sampled: The sequence of each of those rows.
    """

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    query_start: NDArray[np.int64]
    context_lens: NDArray[np.int64]
    block_table: NDArray[np.int64]
    num_decodes: int
    sample_rows: NDArray[np.int64]
    sampled: list[Sequence]


def build_batch(step: Step, *, block_size: int) -> Batch:
    """Lay out a step; a sequence that asked for no output gets no sample row."""
    entries = step.scheduled
    starts = _array([start for _, start, _ in entries])
    lens = _array([num_tokens for _, _, num_tokens in entries])
    query_start = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lens)])
    block_table = _padded([sequence.block_table for sequence, _, _ in entries])

    owner = np.repeat(np.arange(len(entries)), lens)  # the sequence of every row
    positions = np.arange(query_start[-1]) + (starts - query_start[:-1])[owner]
    blocks, offsets = np.divmod(positions, block_size)
    token_ids: list[int] = []
    for sequence, start, num_tokens in entries:
        token_ids += sequence.tokens(start, start + num_tokens)
    wanted = [index for index, entry in enumerate(entries) if _is_sampled(entry)]
    return Batch(
        token_ids=_array(token_ids),
        positions=positions,
        slots=block_table[owner, blocks] * block_size + offsets,
        query_start=query_start,
        context_lens=starts + lens,
        block_table=block_table,
        num_decodes=int(np.count_nonzero(lens == 1)),
        sample_rows=query_start[1:][wanted] - 1,
        sampled=[entries[index].sequence for index in wanted],
    )


def _is_sampled(entry: Scheduled) -> bool:
    return entry.reaches_target and entry.sequence.params.max_tokens > 0


def _array(values: Seq[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _padded(tables: Seq[Seq[int]]) -> NDArray[np.int64]:
    lens = _array([len(table) for table in tables])
    padded = np.repeat(_array([table[0] for table in tables])[:, None], lens.max(), axis=1)
    padded[np.arange(padded.shape[1]) < lens[:, None]] = _array(list(chain.from_iterable(tables)))
    return padded
