"""What attention is compiled with on each family of chips: tiles, warps, stages, splits.

Nothing is tried out while serving. The rows were chosen offline: by a model or by public
measurements, named beside them, and among what these leave by the compiler. Every row spills no
register at groups of 1 to 8 heads, with and without window, cap and split (triton 3.9). None was
timed by us; `paged_attention` takes other `tiles` to compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch

__all__ = ["Tile", "Tiles", "attention_tiles", "best_splits", "has_fp8"]


@dataclass(frozen=True, slots=True)
class Tile:
    """What one program takes at a time.

    Args:
        rows: Tokens × query heads of a KV head; for a larger group, the next power of two.
        keys: Tokens of the context.
        num_warps: Of 32 threads, on AMD of 64.
        num_stages: Of the loop over the keys: from 3 on, the next tile is loaded while this
            one is computed; matrix units that read shared memory by themselves need 2.
    """

    rows: int
    keys: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """For sequences with one new token, and for those with more."""

    decode: Tile
    prefill: Tile


# Decodes are bound by memory. By Little's law, bandwidth × latency must be under way to keep it
# busy, which at 1 µs is for each processor 19 KB on an A100 (2.0 TB/s, 108 of them), 36 KB on an
# H200 (4.8, 132), 54 KB on a B200 (8.0, 148) and 17 KB on an MI300X (5.3, 304). A tile's 8,192
# keys' and as many values' elements are 32 KB in 16 bits. Programs of 72 KB of shared memory fit
# twice on an A100's processor and three times on the other two, each with a tile under way while
# one is computed; on an MI300X (32 KB, the tile under way in registers) twice. In 8 bits, two
# tiles are under way. 16 rows are the fewest that matrix units take.
_KEYS = {64: 128, 128: 64, 256: 32}  # by head_dim, the next power of two
_DECODE = {
    ("sm_80", 16): (4, 3),  # by family and bits of a key's element: warps, stages
    ("sm_90", 16): (4, 3),
    ("sm_90", 8): (4, 4),
    ("sm_100", 16): (4, 3),
    ("sm_100", 8): (4, 4),
    ("gfx942", 16): (4, 2),  # 2 against 1 stage: 2 to 26 % less time, pytorch/pytorch#176676
    ("gfx942", 8): (4, 2),
}
_DECODE_WIDE = {("sm_100", 8, 256): (4, 3)}  # and head_dim: 4 stages spill
_RESIDENT = {"sm_80": 2, "sm_90": 3, "sm_100": 3, "gfx942": 2}  # of a processor

# Prompts are bound by arithmetic, if many rows share what is read from the L2 cache: 64 rows do 64
# operations for each byte of bf16, and at the 400 TFLOPS of a plain Triton kernel on an H100
# (407 to 487, facebookexperimental/triton#206) would read 6.3 TB/s; 128 rows half of it. They
# need 8 warps' registers. `wgmma` and `tcgen05` want 64 rows and 4 warps at least.
_PREFILL = {
    # A100. Twice the keys spill at 128 elements, twice the rows at 256.
    ("sm_80", 64): Tile(128, 64, 8, 3),
    ("sm_80", 128): Tile(128, 32, 8, 3),
    ("sm_80", 256): Tile(64, 32, 8, 2),
    # H100, H200. 128 × 128 is what Triton's tutorial keeps for 8 warps; at 128 elements it spills
    # for groups of 3 and 7. 3 stages: sgl-project/sglang#36102, vllm-project/vllm#49154.
    ("sm_90", 64): Tile(128, 128, 8, 2),
    ("sm_90", 128): Tile(128, 64, 8, 3),
    ("sm_90", 256): Tile(128, 32, 8, 2),
    # B200. Sums are in tensor memory, but scores pass through registers: 128 × 128 spills, and
    # so does a window at 256 elements in 2 stages.
    ("sm_100", 64): Tile(128, 64, 8, 3),
    ("sm_100", 128): Tile(128, 64, 8, 3),
    ("sm_100", 256): Tile(128, 32, 8, 3),
    # MI300X. At most 256 of 512 registers up to 128 elements, so that two waves share a SIMD.
    ("gfx942", 64): Tile(128, 64, 4, 2),
    ("gfx942", 128): Tile(128, 32, 4, 2),
    ("gfx942", 256): Tile(64, 32, 4, 2),
}

# fp32 is there to be exact. NVIDIA has no matrix instruction for it: larger tiles, unrolled into
# single products, spill.
_FP32 = {
    64: Tiles(Tile(16, 32, 4, 3), Tile(32, 16, 4, 2)),
    128: Tiles(Tile(16, 32, 4, 3), Tile(32, 16, 8, 2)),
    256: Tiles(Tile(16, 16, 4, 3), Tile(32, 16, 8, 2)),
}
_INTERPRETED = Tiles(Tile(16, 32, 1, 1), Tile(64, 32, 1, 1))


def has_fp8(family: str) -> bool:
    """Whether keys and values may be held in 8 bits."""
    return (family, 8) in _DECODE


def attention_tiles(family: str, head_dim: int, dtype: torch.dtype, kv_dtype: torch.dtype) -> Tiles:
    """The tiles for queries of `dtype`, keys and values of `kv_dtype`.

    Args:
        family: `sm_80`, `sm_90`, `sm_100` or `gfx942`; `cpu` where kernels are interpreted.
        head_dim: At most 256.

    Raises:
        ValueError: There is no row for this.
    """
    if family == "cpu":
        return _INTERPRETED
    bits = min(8 * kv_dtype.itemsize, 16)
    if (family, bits) not in _DECODE:
        known = ", ".join(f"{bits} bits on {name}" for name, bits in _DECODE)
        raise ValueError(f"no attention tiles for {bits}-bit keys on {family}; there are {known}")
    width = next(width for width in _KEYS if width >= head_dim)
    if dtype == torch.float32:
        return _FP32[width]
    num_warps, num_stages = _DECODE_WIDE.get((family, bits, width), _DECODE[family, bits])
    return Tiles(Tile(16, _KEYS[width], num_warps, num_stages), _PREFILL[family, width])


def best_splits(
    num_decodes: int, num_kv_heads: int, max_context: int, *, family: str, num_processors: int
) -> int:
    """Programs that each decode is best spread over; 1 where decodes alone fill the chip.

    Else the fewest whose last wave is nearly as full as with the best number, each of 256 keys
    at least, which is what writing and merging its part costs.

    Args:
        max_context: Tokens of the longest context.
        num_processors: Of the chip: `multi_processor_count` of its properties.

    Source:
        FlashAttention's `num_splits_heuristic`, Dao-AILab/flash-attention (80 %, 85 %).
    """
    programs, room = num_decodes * num_kv_heads, num_processors * _RESIDENT[family]
    if programs >= 0.8 * room:
        return 1
    numbers = range(1, max(1, min(max_context // 256, 64)) + 1)
    fullness = [number * programs / (ceil(number * programs / room) * room) for number in numbers]
    return next(
        n for n, full in zip(numbers, fullness, strict=True) if full >= 0.85 * max(fullness)
    )
