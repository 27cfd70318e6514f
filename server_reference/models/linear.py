"""Products with a weight matrix, whatever it is stored as."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor
from torch.nn import functional

__all__ = ["DenseLinear", "Linear"]


class Linear(Protocol):
    """Maps rows of `in_features` values to rows of `out_features`, a bias included."""

    in_features: int
    out_features: int

    def __call__(self, x: Tensor) -> Tensor:
        """`[rows, in_features]` to `[rows, out_features]`, in `x`'s dtype."""
        ...


class DenseLinear:
    """A matrix of floating-point numbers.

    Args:
        weight: `[out_features, in_features]`.
        bias: `[out_features]`, or `None`.
        pad_rows: The row count is padded up to a multiple of it, so that a row's numbers do
            not depend on how many others there are: the matrix kernels take other paths for
            few or ragged rows. 1 does not pad.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *, pad_rows: int = 1) -> None:
        if pad_rows < 1:
            raise ValueError(f"pad_rows must be at least 1, not {pad_rows}")
        self.weight = weight
        self.bias = bias
        self.out_features, self.in_features = weight.shape
        self._pad_rows = pad_rows

    def __call__(self, x: Tensor) -> Tensor:
        num_rows = len(x)
        missing = -num_rows % self._pad_rows
        if missing:
            x = functional.pad(x, (0, 0, 0, missing))
        return functional.linear(x, self.weight, self.bias)[:num_rows]
