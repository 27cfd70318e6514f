"""RMSNorm with what is added before it, in float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["add_and_normalise"]


def add_and_normalise(
    x: Tensor,
    weight: Tensor,
    *,
    eps: float,
    dtype: torch.dtype,
    added: Tensor | None = None,
    post_weight: Tensor | None = None,
) -> Tensor:
    """The twin of `kernels.norms.add_and_normalise`; `x` changes here too."""
    total = x.double()
    if added is not None:
        total += added.double() if post_weight is None else _normalised(added, post_weight, eps)
        x.copy_(total)
    return _normalised(total, weight, eps).to(dtype)


def _normalised(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    rows = x.double()
    size: Tensor = (rows.square().mean(-1, keepdim=True) + eps).sqrt()
    return rows / size * (weight.double() / math.sqrt(len(weight)))
