"""N-gram lookup, a place at a time."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["follow"]


def follow(
    history: Tensor, rows: Tensor, lens: Tensor, counts: Tensor, *, num_drafts: int
) -> Tensor:
    """The twin of `kernels.ngram.follow`."""
    drafts = torch.full((len(rows), num_drafts), -1, dtype=torch.int32, device=history.device)
    texts = zip(rows.tolist(), lens.tolist(), counts.tolist(), strict=True)
    for at, (row, num_tokens, count) in enumerate(texts):
        text = history[row, :num_tokens].tolist()
        place = _place(text)
        if place is not None:
            followed = [text[place + at % (num_tokens - place)] for at in range(count)]
            drafts[at, :count] = torch.tensor(followed, dtype=torch.int32)
    return drafts


def _place(text: list[int]) -> int | None:
    pairs = [place for place in range(2, len(text)) if text[place - 2 : place] == text[-2:]]
    newest = pairs[:-17:-1]

    def length(place: int) -> int:
        return max(n for n in (2, 3, 4) if n <= place and text[place - n : place] == text[-n:])

    return max(newest, key=lambda place: (length(place), place), default=None)
