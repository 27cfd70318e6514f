"""Launch a Triton kernel in a configuration that was chosen, and compiled, beforehand.

A launch that was not is an error: compiling takes seconds, in the middle of a step.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

from .attention_tiles import has_fp8
from .manifest import TARGETS, Configuration, Row, rows

__all__ = [
    "Configuration",
    "LaunchError",
    "allow_jit",
    "check",
    "chip_family",
    "launch",
    "recorded",
    "why_not",
]

_POINTERS = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float8_e4m3fn: "*fp8e4nv",
    torch.float8_e4m3fnuz: "*fp8e4b8",
    torch.float8_e5m2: "*fp8e5",
    torch.float64: "*fp64",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.int16: "*i16",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.bool: "*u1",
}
_ALIGNED = {dtype: f"{name}:16" for dtype, name in _POINTERS.items()}
_PLAIN = {float: "fp32", bool: "u1", type(None): "none"}
_NEAREST = 3
_LEAST_TRITON = (3, 6)

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Recorder:
    target: str
    rows: list[Row] = field(default_factory=list)


_recorder: ContextVar[_Recorder | None] = ContextVar("_recorder", default=None)
_known: set[tuple[Any, ...]] = set()  # launches that were looked up and may be made
_parameters: dict[int, tuple[Any, tuple[tuple[bool, bool], ...]]] = {}
"""By the kernel's `id`, what it is specialised by; the kernel too, or another may get its `id`."""


class LaunchError(RuntimeError):
    """A kernel was launched as it was not compiled beforehand.

    Attributes:
        row: What was launched.
        target: For which chips.
    """

    def __init__(self, row: Row, target: str) -> None:
        self.row, self.target = row, target
        asked = ", ".join(f"{name}={value}" for name, value in row.items().items())
        super().__init__(
            f"{row.kernel} was not compiled beforehand for {target} with {asked}; "
            f"{_nearest(row, target)}; add the row to the manifest (python -m "
            f"tools.kernel_manifest), or let kernels be compiled when they are first launched: "
            f"SMARTCLIENT_JIT=1, or --jit"
        )


def launch(
    kernel: Any, grid: Sequence[int], arguments: Sequence[Any], configuration: Configuration
) -> None:
    """Start `grid` programs of a `triton.jit` function.

    Args:
        arguments: Its parameters that are no constants, in order; tensors for pointers.

    Raises:
        LaunchError: The manifest has no such row for the device, and compiling at run time was
            not allowed. In the interpreter everything may be launched.
    """
    if isinstance(kernel, JITFunction):
        types = _types(kernel, arguments)
        recorder = _recorder.get()
        if recorder is not None:
            recorder.rows.append(_row(kernel, types, configuration))
            return
        device = next(one.device for one in arguments if isinstance(one, Tensor))
        key = (id(kernel), types, configuration, device)
        if key not in _known:
            check(_row(kernel, types, configuration), chip_family(device))
            _known.add(key)
    kernel[tuple(grid)](
        *arguments,
        **dict(configuration.constants),
        num_warps=configuration.num_warps,
        num_stages=configuration.num_stages,
    )


@contextmanager
def recorded(target: str) -> Iterator[list[Row]]:
    """Launches inside are not made but listed, as they would be on such a chip.

    Their tensors may be on torch's `meta` device.
    """
    recorder = _Recorder(target)
    token = _recorder.set(recorder)
    try:
        yield recorder.rows
    finally:
        _recorder.reset(token)


def chip_family(device: torch.device) -> str:
    """What tables of configurations call the chip: `sm_90`, `gfx942`; `cpu`: interpreted."""
    recorder = _recorder.get()
    return _family(device) if recorder is None else recorder.target


@cache
def _family(device: torch.device) -> str:
    if device.type != "cuda":
        return device.type
    if torch.version.hip:
        name: str = torch.cuda.get_device_properties(device).gcnArchName
        return name.partition(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def why_not(
    device: torch.device, *, is_fp8: bool = False, version: str = triton.__version__
) -> str | None:
    """Why kernels cannot run on a GPU, and what to do; `None` where they can.

    Args:
        is_fp8: Keys and values are to be held in fp8.
        version: Triton's.
    """
    family = chip_family(device)
    if tuple(map(int, version.split(".")[:2])) < _LEAST_TRITON:
        least = ".".join(map(str, _LEAST_TRITON))
        return f"kernels need triton {least} or later, not {version}; install one"
    if family not in TARGETS:
        return f"there are kernels for {', '.join(TARGETS)}, and none for {family}"
    if is_fp8 and not has_fp8(family):
        return f"{family} has no fp8; use kv_dtype='auto'"
    return None


def _row(kernel: Any, types: tuple[str, ...], configuration: Configuration) -> Row:
    module = kernel.__module__.removeprefix(f"{__package__}.")
    return Row(kernel=f"{module}:{kernel.__name__}", types=types, configuration=configuration)


def allow_jit() -> None:
    """Let this process compile what it launches, as SMARTCLIENT_JIT=1 in the environment does."""
    os.environ["SMARTCLIENT_JIT"] = "1"


def check(row: Row, target: str) -> None:
    """Hold a launch to the manifest.

    Raises:
        LaunchError: It is not there, and compiling at run time was not allowed.
    """
    if row in rows(target):
        return
    if os.environ.get("SMARTCLIENT_JIT") != "1":
        raise LaunchError(row, target)
    _logger.warning("compiling %s now: it is not in the manifest of %s", row.kernel, target)


def _types(kernel: Any, arguments: Sequence[Any]) -> tuple[str, ...]:
    """Of each argument, what the compiler would make a difference by."""
    if (known := _parameters.get(id(kernel))) is None:
        known = _parameters[id(kernel)] = (
            kernel,
            tuple(
                (not one.do_not_specialize, not one.do_not_specialize_on_alignment)
                for one in kernel.params
                if not one.is_constexpr
            ),
        )
    types = []
    for value, (specialised, by_16) in zip(arguments, known[1], strict=True):
        kind = type(value)
        if kind is int:
            types.append(_integer(value, specialised, by_16))
        elif kind is float or kind is bool or value is None:
            types.append(_PLAIN[kind])
        elif specialised and by_16 and not value.data_ptr() % 16:
            types.append(_ALIGNED[value.dtype])
        else:
            types.append(_POINTERS[value.dtype])
    return tuple(types)


def _integer(value: int, specialised: bool, by_16: bool) -> str:
    kind = "i32" if -(2**31) <= value < 2**31 else "i64"
    if specialised and value == 1:
        return "i32:1"
    return f"{kind}:16" if specialised and by_16 and not value % 16 else kind


def _nearest(row: Row, target: str) -> str:
    """The rows of the same kernel that differ in the fewest things."""
    if target not in TARGETS:
        return f"nothing is compiled for {target}, only for {', '.join(TARGETS)}"
    asked = row.items()
    differing = []
    for other in rows(target):
        if other.kernel == row.kernel:
            found = other.items()
            names = [name for name in found | asked if found.get(name) != asked.get(name)]
            differing.append([f"{name}={found.get(name)}" for name in names])
    if not differing:
        return f"the manifest has no row of this kernel for {target}"
    differing.sort(key=len)
    return f"nearest: {'; or '.join(', '.join(names) for names in differing[:_NEAREST])}"
