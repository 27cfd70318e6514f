"""The two ceilings of a chip as they are measured: of its memory, and of its matrix units."""

from __future__ import annotations

from collections.abc import Callable

import torch

from server_reference.roofline import Chip

from .device import Device
from .figures import Figure
from .sizes import Sizes

__all__ = ["ceilings", "or_why"]


def ceilings(device: Device, sizes: Sizes) -> tuple[Chip, list[Figure]]:
    """What a copy and a product of large matrices reach: the chip as it is."""
    bandwidth, operations = _bandwidth(device, sizes.copied), _operations(device, sizes.product)
    chip = Chip(
        name=device.facts()["chip"],
        memory=0.0,
        bandwidth=bandwidth,
        operations={"bf16": operations},
        source="measured in this run",
    )
    kind = str(device.dtype).removeprefix("torch.")
    return chip, [
        Figure(
            stage="ceilings",
            name=f"copy of {sizes.copied:,} bytes, read and written",
            value=bandwidth / 1e9,
            unit="GB/s",
        ),
        Figure(
            stage="ceilings",
            name=f"product of {sizes.product:,} x {sizes.product:,} matrices, {kind}",
            value=operations / 1e12,
            unit="TFLOPS",
        ),
    ]


def _bandwidth(device: Device, size: int) -> float:
    """Bytes a second that a copy of so many reads and writes together."""
    numbers = size // device.dtype.itemsize
    source = torch.randn(numbers, dtype=device.dtype, device=device.device)
    into = torch.empty_like(source)
    return 2 * size / device.seconds(lambda: into.copy_(source))


def _operations(device: Device, size: int) -> float:
    """Operations a second of a product of square matrices."""
    left, right = (
        torch.randn(size, size, dtype=device.dtype, device=device.device) for _ in range(2)
    )
    return 2 * size**3 / device.seconds(lambda: left @ right)


def or_why(measure: Callable[[], float]) -> float | str:
    """What is measured of others; or why it cannot be, which is no fault of ours."""
    try:
        return measure()
    except Exception as error:  # theirs raise whatever they like
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:80]}"
