"""The gate of an MLP: SwiGLU and GeGLU, from the rows that hold both projections."""

from __future__ import annotations

from typing import get_args

import torch
import triton
import triton.language as tl
from torch import Tensor

from .arguments import FLOATS, check_tensor
from .launch import Configuration, launch
from .operations import Activation

__all__ = ["activate"]

_CONFIGURATION = (("BLOCK", 1024),)
"""Model: 8 values for each of 128 threads, one load of 16 bytes from each half."""


def activate(gate_up: Tensor, activation: Activation) -> Tensor:
    """Multiply one half of each row by the activation of the other.

    Args:
        gate_up: The gate's values, then those it lets through, `[num_tokens, 2 *
            intermediate]`, fp16, bf16 or fp32, contiguous.
        activation: Of the gate; `gelu_tanh` is GELU with its hyperbolic tangent.

    Returns:
        `[num_tokens, intermediate]`, `gate_up`'s dtype.

    Raises:
        ValueError: A shape, dtype, stride or name is not as above.

    Cost:
        Bound by memory: reads `gate_up` once and writes half as much.

    Source:
        Shazeer, "GLU Variants Improve Transformer", 2020, section 2; Hendrycks and Gimpel,
        "Gaussian Error Linear Units", 2016, section 2.
    """
    if activation not in get_args(Activation):
        raise ValueError(f"activation must be silu or gelu_tanh, not {activation!r}")
    check_tensor("gate_up", gate_up, (None, None), *FLOATS)
    num_tokens, width = gate_up.shape
    if width % 2:
        raise ValueError(f"gate_up must have rows of two halves, not of {width} values")
    out = torch.empty(num_tokens, width // 2, dtype=gate_up.dtype, device=gate_up.device)
    constants = (*_CONFIGURATION, ("GELU", activation == "gelu_tanh"))
    launch(
        _gate_kernel,
        (num_tokens, triton.cdiv(width // 2, dict(_CONFIGURATION)["BLOCK"])),
        (out, gate_up, width // 2),
        Configuration(constants=constants),
    )
    return out


@triton.jit
def _gate_kernel(
    out_ptr,  # [num_tokens, intermediate]
    gate_up_ptr,  # [num_tokens, 2 * intermediate]
    intermediate,
    BLOCK: tl.constexpr,  # values of a program
    GELU: tl.constexpr,
):
    # int64: a long batch of a wide model has over 2**31 values.
    row = tl.program_id(0).to(tl.int64) * intermediate
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < intermediate
    gate = tl.load(gate_up_ptr + 2 * row + offs, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + 2 * row + intermediate + offs, mask=inside, other=0.0)
    # Both are the gate times a sigmoid: (1 + tanh(x)) / 2 is the sigmoid of 2 x.
    steepness = gate
    if GELU:
        steepness = 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)  # sqrt(8 / pi)
    out = gate * _sigmoid(steepness) * up.to(tl.float32)
    tl.store(out_ptr + row + offs, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _sigmoid(x):
    small = tl.exp(-tl.abs(x))  # at most 1, so that nothing overflows
    return tl.where(x < 0, small, 1.0) / (1.0 + small)
