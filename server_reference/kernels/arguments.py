"""Refuse what a kernel would read wrongly: tensors of another shape, type or layout."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["FLOATS", "check_scales", "check_tensor", "form_of"]

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
"""What kernels compute with, in fp32."""


def check_tensor(
    name: str, tensor: Tensor, shape: tuple[int | None, ...], *dtypes: torch.dtype
) -> None:
    """A kernel counts on all of it: it reads from the address of the first element on.

    Args:
        shape: `None`: any number.

    Raises:
        ValueError: The tensor is of another shape or dtype, or has gaps.
    """
    fits = tensor.shape == shape or (
        len(tensor.shape) == len(shape)
        and all(asked in (None, size) for asked, size in zip(shape, tensor.shape, strict=True))
    )
    if not fits or tensor.dtype not in dtypes or not tensor.is_contiguous():
        sizes = ", ".join("any" if size is None else str(size) for size in shape)
        kinds = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise ValueError(
            f"{name} must be contiguous [{sizes}] of {kinds}, not {form_of(tensor)} with strides "
            f"{tensor.stride()}"
        )


def check_scales(**scales: float) -> None:
    """Refuse factors that would make numbers none.

    Raises:
        ValueError: One is not above 0, or infinite.
    """
    for name, scale in scales.items():
        if not 0 < scale < math.inf:
            raise ValueError(f"{name} must be above 0 and finite, not {scale}")


def form_of(tensor: Tensor) -> str:
    """Its shape and dtype, in words."""
    return f"{list(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"
