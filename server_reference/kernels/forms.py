"""What this machine can compute products in, and up to how many rows each is the faster."""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..downloads.cache import atomic_writer, cache_dir
from .linear import Linear, PackedLinear
from .quantized import GROUP, Form, Int4Linear, Int8Linear, packed

__all__ = ["FORMS", "group_of", "row_counts", "why_not"]

_ROW_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_ROUNDS = 6
_TIMED = 32  # matrices of a shape
_HOPELESS = 1.5  # times as slow: no more rows are tried
_ERROR_SHARES = {"bf16": 0.01, "int8": 0.02, "int4": 0.15}

FORMS = tuple(_ERROR_SHARES)
"""Of products faster than the dense one, where a machine has them."""

_logger = logging.getLogger(__name__)

_reasons: dict[str, str] = {}


def why_not(form: str) -> str:
    """Why this torch on this CPU does not compute in a form, or not rightly; else nothing."""
    if form not in _reasons:
        try:
            share = _error_share(form)
        except (AttributeError, RuntimeError) as error:  # there is no such product, or not here
            _reasons[form] = str(error).partition("\n")[0]
        else:
            _reasons[form] = "" if share < _ERROR_SHARES[form] else f"it is off by {share:.0%}"
    return _reasons[form]


def _error_share(form: str) -> float:
    chance = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 4 * GROUP, generator=chance)
    x = torch.randn(5, 4 * GROUP, generator=chance).bfloat16()
    x[0] = 3.0  # the largest sums that products of integers can come to
    weight[0] = 1.0
    if form == "bf16":
        linear: Linear = PackedLinear(weight.bfloat16())
    elif form == "int4":
        linear = Int4Linear(*packed(weight, "int4"))
    else:
        linear = Int8Linear(*packed(weight, "int8"))
    exact = x.float() @ weight.T
    return float((linear(x) - exact).norm() / exact.norm())


def group_of(form: str, linear: Linear) -> str:
    """Products that take equally long: of one form and shape."""
    return f"{form} {linear.out_features}x{linear.in_features}"


def row_counts(
    forms: Mapping[str, Form],
    few: Mapping[str, Linear],
    many: Mapping[str, Linear],
    *,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, int]:
    """Of each form and shape, up to how many rows it is faster than bf16; measured once.

    All are measured anew where one is missing: each needs the others to be timed as in a step.
    """
    groups: dict[str, list[str]] = {}
    for name in [name for name in few if name in many]:
        groups.setdefault(group_of(forms[name], few[name]), []).append(name)
    path = cache_dir() / "weights" / "row-counts.json"
    known = _read(path)
    machine = f"{_cpu()}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    counts = known.setdefault(machine, {})
    is_known = all(type(counts.get(group)) is int for group in groups)
    if not is_known:
        for group, times in _times(groups, few, many, clock).items():
            counts[group] = _most(times)
    try:
        if not is_known:
            with atomic_writer(path) as file:
                file.write(json.dumps(known, indent=1).encode())
    except OSError as error:
        _logger.warning("row counts cannot be kept at %s: %s", path, error)
    return {group: counts[group] for group in groups}


def _read(path: Path) -> dict[str, dict[str, int]]:
    try:
        known = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    counts = known.items() if isinstance(known, dict) else ()
    return {machine: own for machine, own in counts if isinstance(own, dict)}


def _cpu() -> str:
    """Its name and its kind: machines of one name may have cores of several kinds."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().partition("\n\n")[0].splitlines() if info.exists() else []
    told = {name.strip(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    kinds = [f"{each} {told[each]}" for each in ("cpu family", "model", "stepping") if each in told]
    name = told.get("model name") or platform.processor() or platform.machine()
    return ", ".join([name, *kinds])


def _times(
    groups: Mapping[str, Sequence[str]],
    few: Mapping[str, Linear],
    many: Mapping[str, Linear],
    clock: Callable[[], float],
) -> dict[str, NDArray[np.float64]]:
    """CPU seconds of each group's products in both forms, `[2, row counts]`, the least of some.

    They are taken as a step takes them, through all matrices before one comes again, so that
    none is found in the caches that would not be there in a step. And round after round: what
    else the machine does for a while makes one round slower and not one row count or one form.
    """

    def spent(linears: Sequence[Linear], rows: int) -> float:
        x = torch.ones(rows, linears[0].in_features, dtype=torch.bfloat16)
        start = clock()
        for linear in linears:
            linear(x)
        return clock() - start

    times = {group: np.full((2, len(_ROW_COUNTS)), np.inf) for group in groups}
    with torch.inference_mode():
        for _ in range(_ROUNDS):
            tried = dict(groups)
            for at, rows in enumerate(_ROW_COUNTS):
                for form, linears in enumerate((few, many)):
                    for group, names in tried.items():
                        own = spent([linears[name] for name in names[:_TIMED]], rows)
                        times[group][form, at] = min(times[group][form, at], own)
                tried = {
                    group: names
                    for group, names in tried.items()
                    if times[group][0, at] < _HOPELESS * times[group][1, at]
                }
    return times


def _most(times: NDArray[np.float64]) -> int:
    """The largest row count up to which the first form takes less time than the second; 0: never.

    More rows do not take less time: where they did, something had disturbed the fewer.
    """
    few, many = np.minimum.accumulate(times[:, ::-1], axis=1)[:, ::-1]
    faster = np.append(few < many, False)
    return (0, *_ROW_COUNTS)[int(faster.argmin())]
