"""Turn a step of the scheduler into the arrays that a model runs on.

The arrays are NumPy's: the same for every device, and built without a loop per token.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

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
        rows: `Sequence.row` of each sequence, `[num_seqs]`.
        owners: Arrival and preemptions of each: while they stay the same, so does what its
            computed blocks hold.
        num_decodes: The first so many sequences have one token each.
        pending: Rows whose token is still being sampled, `[num_pending]`: they hold 0.
        pending_from: `Sequence.row` of the sequence of each of those.
        sample_rows: Rows whose logits are needed, `[num_samples]`; a sequence with drafts
            has one more than it has drafts.
        sampled: The work whose rows those are, in their order.
    """

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    query_start: NDArray[np.int64]
    context_lens: NDArray[np.int64]
    block_table: NDArray[np.int64]
    rows: NDArray[np.int64]
    owners: list[tuple[int, int]]
    num_decodes: int
    pending: NDArray[np.int64]
    pending_from: NDArray[np.int64]
    sample_rows: NDArray[np.int64]
    sampled: list[Scheduled]


def build_batch(step: Step, *, block_size: int) -> Batch:
    """Lay out a step; a sequence that asked for no output gets no sample row."""
    entries = step.scheduled
    starts = _array([entry.start for entry in entries])
    lens = _array([entry.num_tokens for entry in entries])
    rows = _array([entry.sequence.row for entry in entries])
    query_start = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lens)])
    block_table = _padded([entry.sequence.block_table for entry in entries])

    owner = np.repeat(np.arange(len(entries)), lens)  # the sequence of every row
    positions = np.arange(query_start[-1]) + (starts - query_start[:-1])[owner]
    blocks, offsets = np.divmod(positions, block_size)
    token_ids = list(chain.from_iterable(map(_tokens, entries)))
    waiting = [at for at, entry in enumerate(entries) if entry.stop > _num_given(entry)]
    wanted = [at for at, entry in enumerate(entries) if entry.is_sampled]
    return Batch(
        token_ids=_array(token_ids),
        positions=positions,
        slots=block_table[owner, blocks] * block_size + offsets,
        query_start=query_start,
        context_lens=starts + lens,
        block_table=block_table,
        rows=rows,
        owners=[(entry.sequence.arrival, entry.sequence.preemptions) for entry in entries],
        num_decodes=int(np.count_nonzero(lens == 1)),
        pending=query_start[1:][waiting] - 1,
        pending_from=rows[waiting],
        sample_rows=_sample_rows(query_start[1:][wanted], [entries[at] for at in wanted]),
        sampled=[entries[at] for at in wanted],
    )


def _tokens(entry: Scheduled) -> list[int]:
    sequence, num_known = entry.sequence, entry.stop - entry.num_drafts
    known = sequence.tokens(entry.start, num_known)
    if entry.num_drafts:
        return known + sequence.drafts[: entry.num_drafts]
    return known if len(known) == entry.num_tokens else [*known, 0]


def _num_given(entry: Scheduled) -> int:
    """Tokens of its sequence that are known or guessed."""
    return entry.sequence.num_known + entry.num_drafts


def _sample_rows(ends: NDArray[np.int64], sampled: Seq[Scheduled]) -> NDArray[np.int64]:
    """The last row of each, and as many before it as it has drafts."""
    counts = _array([1 + entry.num_drafts for entry in sampled])
    starts = np.cumsum(counts) - counts
    return np.repeat(ends - counts - starts, counts) + np.arange(counts.sum())


def _array(values: Seq[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _padded(tables: Seq[Seq[int]]) -> NDArray[np.int64]:
    lens = _array([len(table) for table in tables])
    padded = np.repeat(_array([table[0] for table in tables])[:, None], lens.max(), axis=1)
    padded[np.arange(padded.shape[1]) < lens[:, None]] = _array(list(chain.from_iterable(tables)))
    return padded
