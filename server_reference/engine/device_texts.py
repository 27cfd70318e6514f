"""What sequences hold, on a device, where n-grams are looked up for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import torch

from ..core import Sequence
from ..kernels.ngram import follow
from ..kernels.transfer import Fetched, send

__all__ = ["DeviceTexts"]


class DeviceTexts:
    """Tokens of the sequences that run, by their rows; only what is new is sent.

    Args:
        max_num_seqs: Rows that sequences may have.
        max_context: Tokens of a row.
        num_drafts: Of one sequence at most.
    """

    def __init__(
        self, *, max_num_seqs: int, max_context: int, num_drafts: int, device: torch.device
    ) -> None:
        shape = (max_num_seqs, max_context)
        self._tokens = torch.zeros(shape, dtype=torch.int32, device=device)
        self._num_drafts = num_drafts
        self._held: dict[int, tuple[Sequence, int]] = {}  # by row: whose tokens, and how many

    def follow(self, wanted: Seq[tuple[Sequence, int]]) -> list[list[int]]:
        """See `Texts`."""
        if not wanted:
            return []
        self._update([sequence for sequence, _ in wanted])
        device = self._tokens.device
        rows, lens, counts = (
            send(np.array(values, np.int32), device)
            for values in zip(
                *((one.row, one.num_known, count) for one, count in wanted), strict=True
            )
        )
        drafts = follow(self._tokens, rows, lens, counts, num_drafts=self._num_drafts)
        found = Fetched(drafts).wait().tolist()
        return [[token for token in row if token >= 0] for row in found]

    def remove(self, sequence: Sequence) -> None:
        """See `Texts`."""
        for row in [row for row, (owner, _) in self._held.items() if owner is sequence]:
            del self._held[row]

    def _update(self, sequences: list[Sequence]) -> None:
        places: list[int] = []
        tokens: list[int] = []
        held: dict[int, tuple[Sequence, int]] = {}
        for sequence in sequences:
            owner, known = self._held.get(sequence.row, (sequence, 0))
            known = known if owner is sequence else 0
            new = sequence.tokens(known, sequence.num_known)
            start = sequence.row * self._tokens.shape[1] + known
            places += range(start, start + len(new))
            tokens += new
            held[sequence.row] = sequence, sequence.num_known
        device = self._tokens.device
        flat, values = np.array(places, np.int64), np.array(tokens, np.int32)
        self._tokens.view(-1).index_copy_(0, send(flat, device), send(values, device))
        self._held |= held  # only now: what could not be sent is not there
