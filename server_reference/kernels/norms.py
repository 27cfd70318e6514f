"""RMSNorm of the stream between the layers, with what a layer adds to it, in one pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arguments import FLOATS, check_tensor
from .launch import Configuration, launch

__all__ = ["add_and_normalise"]

_LEAST_BLOCK = 2048
"""One compiled kernel is for all rows up to it."""
_WARPS = ((2048, 4), (4096, 8), (2**31, 16))
"""Warps for rows up to so many values. Model: 8 to 16 values a thread are one or two loads of 16
bytes from each row and leave registers for all of it, as it is read once and kept."""


def add_and_normalise(
    x: Tensor,
    weight: Tensor,
    *,
    eps: float,
    dtype: torch.dtype,
    added: Tensor | None = None,
    post_weight: Tensor | None = None,
) -> Tensor:
    """Add what a layer gave to the stream, in place, and normalise its rows for the next one.

    Args:
        x: The stream, `[num_tokens, hidden]`, fp32, contiguous; `added` is added to it.
        weight: `[hidden]`, fp32, contiguous: the norm's weight, its offset included, times
            `sqrt(hidden)`, as `Transformer` keeps it.
        eps: Added to the mean of a row's squares.
        dtype: Of the result: fp16, bf16 or fp32.
        added: `[num_tokens, hidden]`, fp16, bf16 or fp32, contiguous; `None`: nothing.
        post_weight: Like `weight`: `added` is normalised by it first, as Gemma's layers do.

    Returns:
        `[num_tokens, hidden]`: `x * weight / sqrt(sum(x**2) + hidden * eps)`.

    Raises:
        ValueError: A shape, dtype or stride is not as above.

    Cost:
        Bound by memory: reads the rows of `x` and of `added` once, writes `x`, where something
        is added, and the result: 12 bytes for each value with a bf16 `added`.

    Source:
        Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019, section 4.
    """
    _check(x, weight, added, post_weight)
    if dtype not in FLOATS:
        raise ValueError(f"dtype must be fp16, bf16 or fp32, not {dtype}")
    num_tokens, hidden = x.shape
    normed = torch.empty_like(x, dtype=dtype)
    block = max(triton.next_power_of_2(hidden), _LEAST_BLOCK)
    # Where nothing is added, any rows will do: no kernel is compiled for that alone.
    rows = normed, x, normed if added is None else added
    launch(
        _norm_kernel,
        (num_tokens,),
        (*rows, weight, post_weight, added is not None, hidden, eps),
        Configuration(
            constants=(("BLOCK", block),),
            num_warps=next(warps for most, warps in _WARPS if block <= most),
        ),
    )
    return normed


def _check(x: Tensor, weight: Tensor, added: Tensor | None, post_weight: Tensor | None) -> None:
    check_tensor("x", x, (None, None), torch.float32)
    hidden = x.shape[1]
    if post_weight is not None and added is None:
        raise ValueError("post_weight is of what is added, and nothing is; pass added")
    for name, one in (("weight", weight), ("post_weight", post_weight)):
        if one is not None:
            check_tensor(name, one, (hidden,), torch.float32)
    if added is not None:
        check_tensor("added", added, (*x.shape,), *FLOATS)


@triton.jit
def _norm_kernel(
    normed_ptr,  # [num_tokens, hidden]
    x_ptr,  # [num_tokens, hidden]
    added_ptr,  # [num_tokens, hidden]
    weight_ptr,  # [hidden]
    post_weight_ptr,  # [hidden], or None
    is_added,
    hidden,
    eps,
    BLOCK: tl.constexpr,  # hidden, as a power of 2
):
    # One program per row, which stays in registers.
    offs = tl.arange(0, BLOCK)
    inside = offs < hidden
    # int64: a long batch of a wide model has over 2**31 values.
    row = tl.program_id(0).to(tl.int64) * hidden
    x = tl.load(x_ptr + row + offs, mask=inside, other=0.0)  # [BLOCK]
    if is_added:
        added = tl.load(added_ptr + row + offs, mask=inside, other=0.0).to(tl.float32)
        if post_weight_ptr is not None:
            added = _normalise(added, post_weight_ptr + offs, inside, hidden * eps)
        x += added
        tl.store(x_ptr + row + offs, x, mask=inside)
    normed = _normalise(x, weight_ptr + offs, inside, hidden * eps)
    tl.store(normed_ptr + row + offs, normed.to(normed_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _normalise(x, weight_ptrs, inside, least):
    weight = tl.load(weight_ptrs, mask=inside, other=0.0)
    return x * weight * (1.0 / tl.sqrt(tl.sum(x * x, axis=0) + least))
