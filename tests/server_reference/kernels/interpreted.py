"""Run kernels on the CPU, in Triton's interpreter. Import this before any kernel."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

__all__ = ["guarded", "is_intact", "launched", "shuffled"]

if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("triton was imported to compile, not to interpret", allow_module_level=True)
os.environ["TRITON_INTERPRET"] = "1"

from triton.runtime import interpreter

_BAND = 64  # elements

_patched: set[int] = set()


def _call(self: interpreter.InterpretedFunction, *args: object, **kwargs: object) -> object:
    """What a kernel calls. A launch patches the language in whatever the kernel's module sees;
    triton does so at each call once more, which takes half of all the time.
    """
    if id(self.fn.__globals__) not in _patched:
        interpreter._patch_lang(self.fn)
        _patched.add(id(self.fn.__globals__))
    return self.rewrite()(*args, **kwargs)


interpreter.InterpretedFunction.__call__ = _call

launched: set[str] = set()
"""Names of the kernels that were launched, `module:function`."""

_grid = interpreter.InterpretedFunction.__getitem__


def _noted(self: interpreter.InterpretedFunction, grid: object) -> object:
    """What a launch begins with."""
    launched.add(f"{self.fn.__module__.rpartition('.')[2]}:{self.fn.__name__}")
    return _grid(self, grid)


interpreter.InterpretedFunction.__getitem__ = _noted


def guarded(values: Tensor) -> Tensor:
    """A copy whose neighbours in memory are NaN: what reads past it shows."""
    dtype = values.dtype
    band = torch.full((values.numel() + 2 * _BAND,), torch.nan, dtype=torch.float32)
    memory = band.to(dtype) if dtype.is_floating_point else torch.full_like(band, -7, dtype=dtype)
    inside = memory[_BAND:-_BAND].view(values.shape)
    inside.copy_(values)
    return inside


def is_intact(inside: Tensor) -> bool:
    """Whether nothing was written next to what `guarded` gave."""
    memory = inside._base
    assert memory is not None, "not from `guarded`"
    bands = torch.cat((memory[:_BAND], memory[-_BAND:]))
    untouched = bands.isnan() if bands.dtype.is_floating_point else bands == -7
    return bool(untouched.all())


@contextmanager
def shuffled(seed: int) -> Iterator[None]:
    """Programs run in another order: what counts on the order of the grid shows."""
    builder = interpreter.interpreter_builder
    grid: list[tuple[int, int, int]] = []
    chance = random.Random(seed)

    def set_grid_dim(*size: int) -> None:
        grid[:] = [
            (x, y, z) for x in range(size[0]) for y in range(size[1]) for z in range(size[2])
        ]
        chance.shuffle(grid)
        type(builder).set_grid_dim(builder, *size)

    def set_grid_idx(*_: int) -> None:
        type(builder).set_grid_idx(builder, *grid.pop())

    builder.set_grid_dim, builder.set_grid_idx = set_grid_dim, set_grid_idx
    try:
        yield
    finally:
        del builder.set_grid_dim, builder.set_grid_idx
