"""SwiGLU and GeGLU in float64."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ..operations import Activation

__all__ = ["activate"]


def activate(gate_up: Tensor, activation: Activation) -> Tensor:
    """The twin of `kernels.activation.activate`."""
    gate, up = gate_up.double().chunk(2, dim=-1)
    if activation == "silu":
        return (functional.silu(gate) * up).to(gate_up.dtype)
    return (functional.gelu(gate, approximate="tanh") * up).to(gate_up.dtype)
