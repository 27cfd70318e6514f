"""What attention is compiled with on each family of chips: tiles, warps, stages, splits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["Tile", "Tiles", "attention_tiles", "num_splits"]


@dataclass(frozen=True, slots=True)
class Tile:
    """What one program works on at a time.

    Args:
        rows: Tokens × query heads of a KV head.
        keys: Tokens of the context.
    """

    rows: int
    keys: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """Of sequences with one new token, and of those with more."""

    decode: Tile
    prefill: Tile


def attention_tiles(family: str, head_dim: int, dtype: torch.dtype, kv_dtype: torch.dtype) -> Tiles:
    return Tiles(decode=Tile(16, 16, 1, 1), prefill=Tile(64, 16, 1, 1))


def num_splits() -> int:
    return 1
