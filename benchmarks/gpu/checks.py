"""Every kernel beside its twin in float64, with the measures of public models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite

import torch
from torch import Tensor

from server_reference.kernels.launch import recorded
from server_reference.kernels.manifest import Row

from .attending import attention_cases
from .cases import Case, fp8_case, stream_cases
from .device import Device
from .figures import Check
from .sizes import Sizes

__all__ = ["cases", "check", "checked", "launched"]

_WITHOUT_FP8 = ("sm_80",)


def cases(sizes: Sizes, dtype: torch.dtype, family: str) -> Iterator[tuple[str, Case]]:
    """All inputs, each with whose measures it has."""
    for name, config in sizes.checked.items():
        chance = torch.Generator().manual_seed(0)
        for case in stream_cases(config, dtype, chance):
            yield name, case
        for case in attention_cases(config, dtype, sizes.checked_prompt):
            yield name, case
    if family in _WITHOUT_FP8:
        return
    for name, config in list(sizes.attending.items())[-1:]:
        yield name, fp8_case(config, dtype, torch.Generator().manual_seed(0))
        kv_dtype = torch.float8_e4m3fn
        for case in attention_cases(config, dtype, sizes.checked_prompt, kv_dtype=kv_dtype):
            yield name, case


def launched(sizes: Sizes, dtype: torch.dtype, target: str) -> list[Row]:
    """What all cases launch on such a chip, found out without one."""
    rows: list[Row] = []
    for _, case in cases(sizes, dtype, target):
        with recorded(target) as found:
            case.run(lambda one: one.to("meta"))
        rows += found
    return list(dict.fromkeys(rows))


def check(device: Device, sizes: Sizes, family: str, tell: Callable[[str], None]) -> list[Check]:
    """Run all of them."""
    checks = []
    for name, case in cases(sizes, device.dtype, family):
        tell(f"{case.kernel}, {name}, {case.name}")
        checks.append(checked(device, name, case))
    return checks


def checked(device: Device, name: str, case: Case) -> Check:
    """A kernel that raises is as wrong as one that disagrees."""
    told = {"kernel": case.kernel, "case": f"{name}, {case.name}"}
    try:
        got = case.run(lambda one: one.to(device.device, copy=True))
        device.wait()
    except Exception as error:  # whatever it is, the other kernels are to be checked too
        first = str(error).partition("\n")[0]
        return Check(**told, error=None, wrong=f"{type(error).__name__}: {first}")
    expected = case.twin()
    worst = 0.0
    for one, other, allowed in zip(got, expected, case.allowed, strict=True):
        worst = max(worst, _error(one.cpu(), other, *allowed))
    wrong = "" if worst <= 1 else f"off by {worst:.3g} times what is allowed"
    return Check(**told, error=worst if isfinite(worst) else None, wrong=wrong)


def _error(got: Tensor, expected: Tensor, rtol: float, atol: float) -> float:
    """The largest difference, as a multiple of what is allowed; a NaN is infinitely off."""
    if got.shape != expected.shape:
        return float("inf")
    off = (got.double() - expected.double()).abs()
    allowed = atol + rtol * expected.double().abs()
    relative = torch.where(off == 0, 0.0, off / allowed).nan_to_num(nan=float("inf"))
    return float(relative.max())
