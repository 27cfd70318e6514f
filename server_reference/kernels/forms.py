"""What this machine can compute products in, and up to how many rows each is the faster."""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..downloads.cache import atomic_writer, cache_dir
from .linear import Linear, PackedLinear
from .quantized import GROUP, Form, Int4Linear, Int8Linear, packed

__all__ = ["FORMS", "group_of", "row_counts", "why_not"]

_ROW_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_ROUNDS = 5
_TIMED = 32  # matrices of a shape: more than the caches next to a core hold, as in a step
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
    forms: Mapping[str, Form], few: Mapping[str, Linear], many: Mapping[str, Linear]
) -> dict[str, int]:
    """Of each form and shape, up to how many rows it is faster than bf16; measured once."""
    groups: dict[str, list[str]] = {}
    for name in few.keys() & many.keys():
        groups.setdefault(group_of(forms[name], few[name]), []).append(name)
    path = cache_dir() / "weights" / "row-counts.json"
    known = _read(path)
    machine = f"{_cpu()}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    counts = known.setdefault(machine, {})
    missing = [group for group in groups if type(counts.get(group)) is not int]
    for group in missing:
        names = groups[group][:_TIMED]
        counts[group] = _most([few[name] for name in names], [many[name] for name in names])
    try:
        if missing:
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
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _most(few: Sequence[Linear], many: Sequence[Linear]) -> int:
    """The largest row count up to which `few` take less CPU time than `many`; 0: never."""

    def spent(linears: Sequence[Linear], x: Tensor) -> float:
        start = time.process_time()
        for linear in linears:
            linear(x)
        return time.process_time() - start

    most = 0
    with torch.inference_mode():
        for count in _ROW_COUNTS:
            x = torch.ones(count, few[0].in_features, dtype=torch.bfloat16)
            rounds = [(spent(few, x), spent(many, x)) for _ in range(_ROUNDS)]
            if min(own for own, _ in rounds) >= min(other for _, other in rounds):
                break  # the least of several: what else the machine does only adds
            most = count
    return most
