"""What a compiler made of a kernel, read from its output, and what of that may not be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SHARED_BYTES", "Report", "of_amd", "of_nvidia", "wrongs"]

SHARED_BYTES = {
    "sm_80": 163 * 1024,
    "sm_90": 227 * 1024,
    "sm_100": 227 * 1024,
    "gfx942": 64 * 1024,
}
"""Shared memory that a program may have (AMD: LDS of a workgroup).

Source:
    CUDA C++ Programming Guide 13.0, table "Technical Specifications per Compute Capability";
    AMD Instinct MI300 ISA, section 2.1.
"""

_TENSOR_MEMORY = 512  # columns, in all of a streaming multiprocessor

# What a matrix unit is told to do, under the names by which the instructions are known.
_PTX_MATRIX = re.compile(r"^\s*(?:@!?%\w+\s+)?(mma|wgmma|tcgen05)\.(?:sync|mma_async|mma)\b", re.M)
_AMD_MATRIX = re.compile(r"^\s*v_(mfma|smfmac)_", re.M)

_PTX_LOAD = re.compile(
    r"^\s*(?:@!?%\w+\s+)?ld\.global(?:\.[a-z_:A-Z0-9]+?)*?(?:\.v(\d))?\.[a-z]+(\d+)\s", re.M
)
_PTX_COPY = re.compile(r"^\s*(?:@!?%\w+\s+)?cp\.async\.c[ag]\.[^;]*?\],\s*(0x[0-9a-f]+|\d+)", re.M)
_AMD_LOAD = re.compile(
    r"^\s*(?:global|buffer|flat)_load_(?:lds_)?(dwordx?\d?|[us]?short|[us]?byte|[us]\d+|b\d+)", re.M
)

_ALIAS = re.compile(r"^(#\w+) = #ttg\.blocked<", re.M)
_PRODUCT = re.compile(r"= tt\.dot(?:_scaled)? (?P<operands>[^:]*):(?P<types>.*)$", re.M)
_RESULT = re.compile(r"-> tensor<[^,>]*(?:, (?P<layout>#\w+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a compiler made of one row for one target.

    Args:
        registers: Of a thread.
        spilled_bytes: Of a thread: values that found no register and go to memory and back.
        shared_bytes: Of a program.
        tensor_columns: Of tensor memory, where the chip has one.
        matrix: Matrix instructions by name, and how many stand in the code.
        loads: Loads from global memory by bytes per thread, and how many stand in the code.
        products: `tl.dot` in the source that need a matrix unit.
        exact_products: Those exempt: of fp32 with exact products.
        plain_products: Of the first kind, those that were compiled to ordinary arithmetic.
    """

    registers: int
    spilled_bytes: int
    shared_bytes: int
    tensor_columns: int = 0
    matrix: Mapping[str, int] = field(default_factory=dict)
    loads: Mapping[int, int] = field(default_factory=dict)
    products: int = 0
    exact_products: int = 0
    plain_products: int = 0

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Report:
        """From what `dataclasses.asdict` made, once it was JSON."""
        loads = {int(width): count for width, count in fields["loads"].items()}
        return cls(**{**fields, "loads": loads})


def wrongs(report: Report, target: str) -> list[str]:
    """Why a row may not be committed; empty: it may."""
    found = []
    if report.spilled_bytes:
        found.append(f"spills {report.spilled_bytes} bytes of registers")
    limit = SHARED_BYTES[target]
    if report.shared_bytes > limit:
        found.append(f"{report.shared_bytes:,} bytes of shared memory, of {limit:,} on {target}")
    if report.tensor_columns > _TENSOR_MEMORY:
        found.append(f"{report.tensor_columns} columns of tensor memory, of {_TENSOR_MEMORY}")
    if report.plain_products or (report.products and not report.matrix):
        what = f"{report.plain_products or report.products} of {report.products} products"
        found.append(f"{what} without a matrix instruction")
    return found


def of_nvidia(
    *, ttir: str, ttgir: str, ptx: str, log: str, shared_bytes: int, tensor_columns: int
) -> Report:
    """Read what was made for an NVIDIA chip.

    Args:
        ttir: The kernel before layouts are chosen.
        ttgir: After it.
        ptx: What goes into the assembler.
        log: What the assembler said with `-v`.

    Raises:
        ValueError: The log does not say how many registers there are.
    """
    used = re.search(r"Used (\d+) registers", log)
    spills = [int(count) for count in re.findall(r"(\d+) bytes spill (?:stores|loads)", log)]
    if used is None or not spills:
        raise ValueError(f"the assembler's log names no registers or no spills: {log[-500:]!r}")
    loads = Counter(int(number or 1) * int(bits) // 8 for number, bits in _PTX_LOAD.findall(ptx))
    loads += Counter(int(size, 0) for size in _PTX_COPY.findall(ptx))
    return Report(
        registers=int(used[1]),
        spilled_bytes=max(spills),
        shared_bytes=shared_bytes,
        tensor_columns=tensor_columns,
        matrix=dict(Counter(_PTX_MATRIX.findall(ptx))),
        loads=dict(loads),
        **_products(ttir, ttgir),
    )


def of_amd(*, ttir: str, ttgir: str, amdgcn: str, shared_bytes: int) -> Report:
    """Read what was made for an AMD chip, of which `amdgcn` is the code.

    Raises:
        ValueError: The code does not say how many registers there are.
    """
    counts = {name: int(count) for name, count in re.findall(r"^ +\.(\w+): +(\d+)$", amdgcn, re.M)}
    if "vgpr_count" not in counts:
        raise ValueError("the code's metadata names no registers")
    spilled = 4 * counts.get("vgpr_spill_count", 0)
    return Report(
        registers=counts["vgpr_count"],
        spilled_bytes=max(spilled, counts.get("private_segment_fixed_size", 0)),
        shared_bytes=shared_bytes,
        matrix=dict(Counter(_AMD_MATRIX.findall(amdgcn))),
        loads=dict(Counter(_amd_width(kind) for kind in _AMD_LOAD.findall(amdgcn))),
        **_products(ttir, ttgir),
    )


def _amd_width(kind: str) -> int:
    """Bytes of `dwordx4`, `ushort`, `u8`."""
    digits = int(re.sub(r"\D", "", kind) or 0)
    if kind.startswith("dword"):
        return 4 * (digits or 1)
    return digits // 8 or (2 if kind.endswith("short") else 1)


def _products(ttir: str, ttgir: str) -> dict[str, int]:
    """How many products there are, and how many were compiled to ordinary arithmetic."""
    exact = [_is_exact(found) for found in _PRODUCT.finditer(ttir)]
    blocked = set(_ALIAS.findall(ttgir))
    plain = [
        found
        for found in _PRODUCT.finditer(ttgir)
        if (result := _RESULT.search(found["types"])) and result["layout"] in blocked
    ]
    # Some compilers widen operands on the way, so that bf16 looks like fp32 by then.
    forgiven = [found for found in plain if any(exact) and _is_exact(found)]
    return {
        "products": exact.count(False),
        "exact_products": exact.count(True),
        "plain_products": len(plain) - len(forgiven),
    }


def _is_exact(product: re.Match[str]) -> bool:
    """Of fp32 and with its precision, for which there is no matrix unit on most chips."""
    operands = re.findall(r"tensor<(?:\d+x)+(\w+)", product["types"])[:2]
    return operands == ["f32", "f32"] and "inputPrecision" not in product["operands"]
