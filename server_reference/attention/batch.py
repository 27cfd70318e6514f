"""The arrays of one step, as a device gets them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["Batch"]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """All sequences of one step, end to end, those with one token first.

    Attributes:
        token_ids: Input tokens, `[num_tokens]`. A negative one, `-1 - row`, is the one that the
            sequence with this `Sequence.row` sampled last, known or not yet.
        positions: Place of each in its sequence, `[num_tokens]`.
        slots: Where each one's key and value go, `[num_tokens]`.
        num_decodes: The first so many sequences have one token.
        query_start: First row of each sequence, and the end, `[num_seqs + 1]`.
        context_lens: Tokens in the cache, these included, `[num_seqs]`.
        targets: Tokens that each sequence is known to have, `[num_seqs]`: those that its prompt
            still lacks included.
        block_table: KV blocks of each sequence, `[num_seqs, max_blocks_per_seq]`. Past
            its last block a row repeats its first one: safe to read, to be masked.
        rows: `Sequence.row` of each sequence, `[num_seqs]`.
        owners: Arrival and preemptions of each: while they stay the same, so does what its
            computed blocks hold.
        sample_rows: Rows whose logits are needed, `[num_samples]`; a sequence with drafts
            has one more than it has drafts.
        sampled: Which sequences those rows are of, in their order, `[num_sampled]`.
    """

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    num_decodes: int
    query_start: NDArray[np.int64]
    context_lens: NDArray[np.int64]
    targets: NDArray[np.int64]
    block_table: NDArray[np.int64]
    rows: NDArray[np.int64]
    owners: list[tuple[int, int]]
    sample_rows: NDArray[np.int64]
    sampled: NDArray[np.int64]

    @classmethod
    def empty(cls, max_blocks: int) -> Batch:
        """Of no sequence; its block table has a width all the same."""
        none = np.zeros(0, dtype=np.int64)
        return cls(
            token_ids=none,
            positions=none,
            slots=none,
            num_decodes=0,
            query_start=np.zeros(1, dtype=np.int64),
            context_lens=none,
            targets=none,
            block_table=np.zeros((0, max_blocks), dtype=np.int64),
            rows=none,
            owners=[],
            sample_rows=none,
            sampled=none,
        )

    def padded(self, num_seqs: int) -> Batch:
        """As many sequences of a token each, or of none: for a batch of decodes alone.

        The tokens that are too many are nowhere in the cache, and no sequence's.
        """
        missing = num_seqs - len(self.rows)
        none = np.zeros(missing, dtype=np.int64)
        ends = np.full(missing, self.query_start[-1])
        blocks = np.zeros((missing, self.block_table.shape[1]), dtype=np.int64)
        return replace(
            self,
            token_ids=np.concatenate((self.token_ids, none)),
            positions=np.concatenate((self.positions, none)),
            slots=np.concatenate((self.slots, none - 1)),
            num_decodes=num_seqs,
            query_start=np.concatenate((self.query_start, ends)),
            context_lens=np.concatenate((self.context_lens, none)),
            block_table=np.concatenate((self.block_table, blocks)),
        )
