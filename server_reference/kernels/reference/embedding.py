"""Embeddings of tokens, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["embed"]


def embed(
    token_ids: Tensor, table: Tensor, *, scale: float = 1.0, newest: Tensor | None = None
) -> Tensor:
    """The twin of `kernels.embedding.embed`."""
    known = token_ids.tolist()
    if newest is not None:
        drawn = newest.tolist()
        known = [max(drawn[-1 - token], 0) if token < 0 else token for token in known]
    rows = table.double()[torch.tensor(known, dtype=torch.int64, device=table.device)]
    return (rows * scale).float()
