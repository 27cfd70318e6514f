"""Matrices of 4 and 8 bits, and their products with bf16 rows.

Sums and scaling are fp32; what is rounded besides the weights is told at each form.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

__all__ = ["GROUP", "Codes", "Form", "Int4Linear", "Int8Linear", "int4_codes", "packed"]

Form: TypeAlias = Literal["int4", "int8"]

GROUP = 32
"""Consecutive weights of a row that share a scale, in 4 bits."""

_SPLIT = 128
_LARGEST = 127
_ZERO = 128  # of unsigned rows: signed ones have no fast product where there are no matrix units


class Codes(NamedTuple):
    """Weights as `codes * scales + offsets`.

    Args:
        codes: 0 to 15, uint8, `[rows, columns]`.
        scales: One for each group of a row, fp32, `[rows, columns / GROUP]`.
        offsets: Likewise.
    """

    codes: Tensor
    scales: Tensor
    offsets: Tensor


def int4_codes(values: Tensor) -> Codes:
    """Round each group to 16 steps from its least to its greatest value."""
    groups = values.float().view(len(values), -1, GROUP)
    least, greatest = groups.aminmax(dim=-1)
    scales = (greatest - least) / 15
    steps = (groups - least.unsqueeze(-1)) / scales.clamp_min(1e-30).unsqueeze(-1)
    return Codes(steps.round().to(torch.uint8).flatten(1), scales, least)


def packed(matrix: Tensor | Codes, form: Form) -> tuple[Tensor, Tensor]:
    """A matrix's weights and scales as `Int4Linear` and `Int8Linear` take them.

    The order of packed 4-bit weights is that of this version of torch on this kind of CPU.

    Args:
        matrix: `[out_features, in_features]`; codes only for `int4`.
    """
    if isinstance(matrix, Tensor) and form == "int8":
        return _int8_rows(matrix.float())
    codes = int4_codes(matrix) if isinstance(matrix, Tensor) else matrix
    weights = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.codes.int(), 1)
    # The product takes a weight for (code - 8) * scale + middle.
    middles = codes.offsets + 8 * codes.scales
    pairs = torch.stack((codes.scales, middles), dim=-1).transpose(0, 1)
    return weights, pairs.to(torch.bfloat16).contiguous()


def _int8_rows(values: Tensor) -> tuple[Tensor, Tensor]:
    """Round each row to 255 steps about 0."""
    scales = values.abs().amax(dim=1) / _LARGEST
    steps = values / scales.clamp_min(1e-30).unsqueeze(1)
    return steps.round().to(torch.int8), scales


class Int4Linear:
    """4 bits and, for each group, a scale and an offset in bf16. The output is rounded to bf16.

    Args:
        weights: As `packed` gives them.
        scales: Likewise, `[in_features / GROUP, out_features, 2]`.
    """

    def __init__(self, weights: Tensor, scales: Tensor) -> None:
        self.in_features, self.out_features = len(scales) * GROUP, scales.shape[1]
        self._weights, self._scales = weights, scales

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.contiguous()
        return torch._weight_int4pack_mm_for_cpu(rows, self._weights, GROUP, self._scales)


class Int8Linear:
    """8 bits and a scale for each row of the matrix; products of integers, which are exact.

    Rows of `x` are rounded to a 15-bit fraction of their largest value, as two 8-bit rows.

    Args:
        codes: `[out_features, in_features]`, int8. A reordered copy is kept, not this one.
        scales: `[out_features]`, fp32.
        out_dtype: fp32 is not rounded.
    """

    def __init__(
        self,
        codes: Tensor,
        scales: Tensor,
        *,
        out_dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        self.out_features, self.in_features = codes.shape
        self._packed = torch.ops.onednn.qlinear_prepack(codes, None)
        self._scales, self._out_dtype = scales, out_dtype
        self._zeros = torch.zeros(len(codes), dtype=torch.int32)

    def __call__(self, x: Tensor) -> Tensor:
        halves, steps = _split(x)
        products = torch.ops.onednn.qlinear_pointwise(
            halves, 1.0, _ZERO, self._packed, self._scales, self._zeros, None, 1.0, 0,
            torch.float32, "none", [], "",
        )  # fmt: skip
        high, low = products.chunk(2)
        y = torch.add(low, high, alpha=_SPLIT).mul_(steps)
        return y.to(self._out_dtype)


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows as `steps * (128 * high + low)`, all `high` above all `low`, each plus 128, uint8."""
    x = x.float()
    largest = torch.linalg.vector_norm(x, torch.inf, dim=-1, keepdim=True)
    steps = (largest / (_LARGEST * _SPLIT)).clamp_min_(1e-30)
    whole = (x / steps).round_()
    high = (whole / _SPLIT).round_()
    halves = torch.cat((high, whole.sub_(high, alpha=_SPLIT))).add_(_ZERO)
    return halves.to(torch.uint8), steps
