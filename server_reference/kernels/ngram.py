"""Guess what follows on a device: n-gram lookup in what sequences hold already."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arguments import check_tensor
from .launch import Configuration, launch

__all__ = ["follow"]

_LONGEST, _SHORTEST = tl.constexpr(4), tl.constexpr(2)  # as in `engine/speculation.py`
_MOST_TRIED = tl.constexpr(16)  # likewise
_PLACES = 4096
"""Places of a text that are compared at a time. Model: 16 KB in flight hide the way to memory;
the newest of them decide as a rule, and no text has over 64 times as many."""
_NUM_WARPS = 8
_LEAST_DRAFTS = 64
"""One compiled kernel is for all numbers of drafts up to it."""


def follow(
    history: Tensor, rows: Tensor, lens: Tensor, counts: Tensor, *, num_drafts: int
) -> Tensor:
    """What followed the longest n-gram like each text's last tokens, for the model to check.

    It is what `NgramIndex.follow` gives: the newest of the longest among the 16 newest places
    of the last two tokens; a text that has begun to repeat itself goes on to.

    Args:
        history: Tokens of sequences, `[num_rows, max_context]`, int32, contiguous.
        rows: Row of `history` of each text, `[num_seqs]`, int32, contiguous.
        lens: Tokens of each, likewise.
        counts: Drafts that are wanted of each, likewise, `num_drafts` at most.
        num_drafts: Of one text at most.

    Returns:
        `[num_seqs, num_drafts]`, int32; -1 where there is no draft.

    Raises:
        ValueError: A shape, dtype or stride is not as above.

    Cost:
        One program per text. Reads it from its end on, four times 4 bytes for each token, of
        which three come from the chip's cache: as far as 16 places or one of four equal
        tokens, or all.

    Source:
        Saxena, "Prompt Lookup Decoding", 2023.
    """
    check_tensor("history", history, (None, None), torch.int32)
    check_tensor("rows", rows, (None,), torch.int32)
    for name, one in (("lens", lens), ("counts", counts)):
        check_tensor(name, one, (len(rows),), torch.int32)
    if num_drafts < 1:
        raise ValueError(f"num_drafts must be at least 1, not {num_drafts}")
    lanes = max(triton.next_power_of_2(num_drafts), _LEAST_DRAFTS)
    drafts = torch.empty(len(rows), num_drafts, dtype=torch.int32, device=history.device)
    launch(
        _follow_kernel,
        (len(rows),),
        (drafts, history, rows, lens, counts, history.shape[1], num_drafts),
        Configuration(
            constants=(("PLACES", _PLACES), ("DRAFTS", lanes)),
            num_warps=_NUM_WARPS,
        ),
    )
    return drafts


@triton.jit(do_not_specialize=["max_context", "num_drafts"])
def _follow_kernel(
    drafts_ptr,  # [num_seqs, num_drafts]
    history_ptr,  # [num_rows, max_context]
    rows_ptr,  # [num_seqs]
    lens_ptr,  # [num_seqs]
    counts_ptr,  # [num_seqs]
    max_context,
    num_drafts,
    PLACES: tl.constexpr,  # compared at a time
    DRAFTS: tl.constexpr,  # at least num_drafts
):
    at = tl.program_id(0)
    text_ptr = history_ptr + tl.load(rows_ptr + at).to(tl.int64) * max_context
    num_tokens = tl.load(lens_ptr + at)
    # A place is where a token follows the pair; 2 is the first, that of the last token the last.
    end, num_left, best = num_tokens, _MOST_TRIED, tl.zeros([], tl.int64)
    while (end > 2) & (num_left > 0) & (best >> 32 < _LONGEST):
        places = end - 1 - tl.arange(0, PLACES)  # the newest first
        lengths = _equal_tokens(text_ptr, num_tokens, places)
        is_tried = lengths >= _SHORTEST
        is_tried &= tl.cumsum(is_tried.to(tl.int32), axis=0) <= num_left
        num_left -= tl.sum(is_tried.to(tl.int32), axis=0)
        found = tl.where(is_tried, lengths.to(tl.int64) << 32 | places, 0)
        best = tl.maximum(best, tl.max(found, axis=0))
        end -= PLACES
    # The longest, and of those the newest.
    place = (best & 0x7FFFFFFF).to(tl.int32)
    offs = tl.arange(0, DRAFTS)
    is_draft = offs < tl.where(best > 0, tl.load(counts_ptr + at), 0)
    # What ends with the text begins again where it began.
    draft = tl.load(text_ptr + place + offs % tl.maximum(num_tokens - place, 1), is_draft, -1)
    tl.store(drafts_ptr + at.to(tl.int64) * num_drafts + offs, draft, mask=offs < num_drafts)


@triton.jit
def _equal_tokens(text_ptr, num_tokens, places):
    """How many tokens before each place equal the last ones, up to `_LONGEST`."""
    lengths = tl.zeros(places.shape, tl.int32)
    for back in tl.static_range(1, 5):
        own = tl.load(text_ptr + places - back, mask=places >= tl.maximum(back, 2), other=-1)
        last = tl.load(text_ptr + num_tokens - back, mask=num_tokens >= back, other=-2)
        lengths += ((own == last) & (lengths == back - 1)).to(tl.int32)
    return lengths
