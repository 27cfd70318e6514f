"""Launch a Triton kernel in a configuration that was chosen, and compiled, beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

__all__ = ["Configuration", "chip_family", "launch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How a kernel is compiled.

    Args:
        constants: Its `tl.constexpr` parameters by name.
        num_warps: Of 32 threads (64 on AMD), which share a program.
        num_stages: Loads in flight ahead of the arithmetic.
    """

    constants: tuple[tuple[str, int | float | bool], ...]
    num_warps: int = 4
    num_stages: int = 2


def launch(
    kernel: Any, grid: Sequence[int], arguments: Sequence[Any], configuration: Configuration
) -> None:
    """Start `grid` programs of a `triton.jit` function.

    Args:
        arguments: Its parameters that are no constants, in order; tensors for pointers.
    """
    kernel[tuple(grid)](
        *arguments,
        **dict(configuration.constants),
        num_warps=configuration.num_warps,
        num_stages=configuration.num_stages,
    )


@cache
def chip_family(device: torch.device) -> str:
    """What tables of configurations call the chip: `sm_90`, `gfx942`; `cpu`: interpreted."""
    if device.type != "cuda":
        return device.type
    if torch.version.hip:
        name: str = torch.cuda.get_device_properties(device).gcnArchName
        return name.partition(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"
