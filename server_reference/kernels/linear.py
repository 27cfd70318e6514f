"""Products with a weight matrix, whatever it is stored as."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["DenseLinear", "Linear", "PackedLinear", "SwitchedLinear", "TiledLinear"]


class Linear(Protocol):
    """Maps rows of `in_features` values to rows of `out_features`; no bias."""

    in_features: int
    out_features: int

    def __call__(self, x: Tensor) -> Tensor:
        """`[rows, in_features]` to `[rows, out_features]`, in `x`'s dtype; a head may give fp32."""
        ...


class DenseLinear:
    """A matrix of floating-point numbers.

    Args:
        weight: `[out_features, in_features]`.
        pad_rows: The row count is padded up to a multiple of it, so that a row's numbers do
            not depend on how many others there are: the matrix kernels take other paths for
            few or ragged rows. 1 does not pad.
    """

    def __init__(self, weight: Tensor, *, pad_rows: int = 1) -> None:
        if pad_rows < 1:
            raise ValueError(f"pad_rows must be at least 1, not {pad_rows}")
        self.weight = weight
        self.out_features, self.in_features = weight.shape
        self._pad_rows = pad_rows

    def __call__(self, x: Tensor) -> Tensor:
        num_rows = len(x)
        missing = -num_rows % self._pad_rows
        if missing:
            x = functional.pad(x, (0, 0, 0, missing))
        return functional.linear(x, self.weight)[:num_rows]


class PackedLinear:
    """A bf16 matrix in the order in which the CPU's matrix units read it: a copy of its own.

    `DenseLinear` has it put into that order anew at each call.
    """

    def __init__(self, weight: Tensor) -> None:
        self.out_features, self.in_features = weight.shape
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, None, "none", [], "")
        return y


class SwitchedLinear:
    """One matrix in two forms: one that is faster for few rows, one for many.

    Args:
        most: The largest row count that goes to `few`.
    """

    def __init__(self, few: Linear, many: Linear, *, most: int) -> None:
        self.out_features, self.in_features = many.out_features, many.in_features
        self._few, self._many, self._most = few, many, most

    def __call__(self, x: Tensor) -> Tensor:
        return self._few(x) if len(x) <= self._most else self._many(x)


class TiledLinear:
    """Another product, given `rows` rows at a time and never more or fewer.

    What kernel computes them then cannot depend on how many there are.
    """

    def __init__(self, linear: Linear, *, rows: int) -> None:
        self.out_features, self.in_features = linear.out_features, linear.in_features
        self._linear, self._rows = linear, rows

    def __call__(self, x: Tensor) -> Tensor:
        num_rows = len(x)
        x = functional.pad(x, (0, 0, 0, -num_rows % self._rows))
        return torch.cat([self._linear(tile) for tile in torch.split(x, self._rows)])[:num_rows]
