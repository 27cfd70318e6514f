"""The operations of a model as Triton kernels, each of which passes over its rows once."""

from __future__ import annotations

from collections.abc import Sequence

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
    packed = PackedDraws.of(draws, vocab_size=logits.shape[1], device=logits.device)
    tokens = draw_tokens(logits, packed)
    return Sampled(tokens, logits, draws, Fetched(tokens))
