"""The operations of a model in PyTorch, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from .operations import Activation
from .sampler import sample

__all__ = ["activate", "add_and_normalise", "embed", "normalise", "sample"]


def embed(token_ids: Tensor, table: Tensor, *, scale: float, newest: Tensor | None) -> Tensor:
    """See `Operations`."""
    if newest is not None:
        carried = newest[(-1 - token_ids).clamp_min_(0)].clamp_min_(0)
        token_ids = torch.where(token_ids < 0, carried, token_ids)
    x = functional.embedding(token_ids, table).float()
    return x * scale if scale != 1 else x


def add_and_normalise(
    x: Tensor,
    weight: Tensor,
    *,
    eps: float,
    dtype: torch.dtype,
    added: Tensor | None,
    post_weight: Tensor | None,
) -> Tensor:
    """See `Operations`."""
    if added is not None:
        if post_weight is not None:
            added = normalise(added.float(), post_weight, eps=eps, dtype=added.dtype)
        x += added
    return normalise(x, weight, eps=eps, dtype=dtype)


def normalise(x: Tensor, weight: Tensor, *, eps: float, dtype: torch.dtype) -> Tensor:
    """Divide rows by the root of their mean square, in fewer steps than torch's rms_norm.

    Args:
        x: `[..., size]`, fp32.
        weight: `[size]`, fp32, times `sqrt(size)`, which the norm has once more.
    """
    size = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    size.mul_(size).add_(len(weight) * eps).sqrt_()
    return (x * weight).div_(size).to(dtype)


def activate(gate_up: Tensor, activation: Activation) -> Tensor:
    """See `Operations`."""
    gate, up = gate_up.chunk(2, dim=-1)
    return _ACTIVATIONS[activation](gate).mul_(up)


_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
}
