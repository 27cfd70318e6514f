"""Read the 4-bit blocks of a GGUF file as the codes that they hold.

Source:
    ggml-org/ggml, src/ggml-common.h (the blocks' layout) and src/ggml-quants.c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..kernels.quantized import GROUP, Codes, Form, packed
from .families import Part
from .gguf import GgufFile

__all__ = ["form_of", "quantized_of"]

_FOUR_BITS = {"Q4_0", "Q4_1", "Q4_K"}
_FLOATS = {"F32", "F16", "BF16"}


def form_of(file: GgufFile, parts: Sequence[Part]) -> Form | None:
    """What the matrix that these tensors make up can be computed in; `None`: only dense."""
    kinds = {file.tensors[part.tensor].kind.name for part in parts}
    if kinds & _FLOATS:
        return None
    return "int4" if kinds <= _FOUR_BITS else "int8"


def quantized_of(file: GgufFile, parts: Sequence[Part], form: Form) -> tuple[Tensor, Tensor]:
    """The matrix, as `packed` gives it: 4 bits are the file's own, 8 are rounded by rows."""
    if form == "int8":
        values = [_ordered(torch.from_numpy(file.tensor(part.tensor)), part) for part in parts]
        return packed(torch.cat(values), "int8")
    codes = []
    for part in parts:
        own = _codes(file.rows(part.tensor), file.tensors[part.tensor].kind.name)
        codes.append([_ordered(rows, part) for rows in own])
    return packed(Codes(*map(torch.cat, zip(*codes, strict=True))), "int4")


def _ordered(rows: Tensor, part: Part) -> Tensor:
    return rows if part.rows is None else rows[torch.from_numpy(part.rows)]


def _codes(raw: NDArray[np.uint8], kind: str) -> Codes:
    """What a tensor's rows hold, `[rows, bytes]`, of 4 bits each value."""
    num_rows = len(raw)
    if kind == "Q4_K":
        from gguf.quants import Q4_K

        blocks = raw.reshape(-1, 144)
        d, least = _floats(blocks[:, :2]), _floats(blocks[:, 2:4])
        scales, offsets = Q4_K.get_scale_min(blocks[:, 4:16])
        scales, offsets = d * scales, -least * offsets
        quants = blocks[:, 16:].reshape(-1, GROUP)
    else:
        has_offset = kind == "Q4_1"
        blocks = raw.reshape(-1, 20 if has_offset else 18)
        scales = _floats(blocks[:, :2])
        offsets = _floats(blocks[:, 2:4]) if has_offset else -8 * scales
        quants = blocks[:, -GROUP // 2 :]
    codes = np.concatenate((quants & 15, quants >> 4), axis=-1)
    return Codes(
        torch.from_numpy(codes.reshape(num_rows, -1)),
        torch.from_numpy(scales.reshape(num_rows, -1)),
        torch.from_numpy(offsets.reshape(num_rows, -1)),
    )


def _floats(two_bytes: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.ascontiguousarray(two_bytes).view(np.float16).astype(np.float32)
