"""Rows to compile: one that is fine, and one for everything that a row may not be. No triton."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from server_reference.kernels.manifest import Configuration, Row

__all__ = ["CRASHING", "EXACT", "LARGE", "PLAIN", "PRODUCT", "SCALE", "SPILLING", "written"]

_KERNELS = "tests.server_reference.kernels.sample_kernels"


def _product(
    dtype: str,
    shape: tuple[int, int, int],
    *,
    precision: str = "tf32",
    num_warps: int = 4,
    num_stages: int = 2,
) -> Row:
    names = ("M", "N", "K")
    return Row(
        kernel=f"{_KERNELS}:_product_kernel",
        types=("*fp32:16", f"*{dtype}:16", f"*{dtype}:16", "i32"),
        configuration=Configuration(
            constants=(*zip(names, shape, strict=True), ("PRECISION", precision)),
            num_warps=num_warps,
            num_stages=num_stages,
        ),
    )


PRODUCT = _product("bf16", (64, 64, 64))
EXACT = _product("fp32", (32, 32, 32), precision="ieee")
SPILLING = _product("bf16", (128, 256, 16), num_warps=1, num_stages=1)
LARGE = _product("bf16", (128, 128, 128), num_warps=8, num_stages=6)
PLAIN = _product("bf16", (4, 4, 16))  # on AMD, whose matrix unit takes no such tile
CRASHING = _product("bf16", (60, 64, 64))
SCALE = Row(
    kernel=f"{_KERNELS}:_scale_kernel",
    types=("*fp32:16", "*bf16:16", "i32:16", "fp32"),
    configuration=Configuration(constants=(("BLOCK", 1024),)),
)


def written(path: Path, jobs: Sequence[tuple[str, Row]]) -> Path:
    """A manifest of them."""
    path.write_text(json.dumps([row.as_json() | {"targets": target} for target, row in jobs]))
    return path
