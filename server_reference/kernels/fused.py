"""The operations of a model as Triton kernels, each of which passes over its rows once."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from .activation import activate
from .draw import Draw
from .embedding import embed
from .norms import add_and_normalise
from .packed_draws import PackedDraws
from .sampler import Sampled
from .sampling import draw_tokens
from .transfer import Fetched

__all__ = ["activate", "add_and_normalise", "embed", "sample"]


def sample(logits: Tensor, draws: Sequence[Draw]) -> Sampled:
    """See `Operations`."""
    whole = _widened(logits)
    packed = PackedDraws.of(draws, vocab_size=whole.shape[1], device=whole.device)
    tokens = draw_tokens(whole, packed)
    return Sampled(tokens, logits, draws, Fetched(tokens))


def _widened(logits: Tensor) -> Tensor:
    """With tokens that never win, up to a multiple of 16: kernels are compiled for that.

    A vocabulary is none where tokens were added to it: 32,003 for instance.
    """
    missing = -logits.shape[1] % 16
    return F.pad(logits, (0, missing), value=float("-inf")) if missing else logits
