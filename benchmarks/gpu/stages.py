"""The stages in their order, as far as time allows; what each found is kept at once."""

from __future__ import annotations

import gc
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from server_reference.kernels.attention_tiles import attention_tiles
from server_reference.roofline import Chip

from . import attention_times, kernel_times
from .ceilings import ceilings
from .checks import check, launched
from .compiling import Late, compile_rows, needed, num_cached
from .device import Device, Gpu, Interpreted, why_not_interpreted
from .engine import host_time, throughput
from .figures import Figure
from .logits import check_logits
from .report import Report, page
from .sizes import FULL, TINY, Sizes
from .steps import decode_step

__all__ = ["STAGES", "run"]

_NO_GPU = """\
no GPU that torch {} can use: run it on a machine with one, or --interpret to see that it runs
"""


@dataclass(slots=True)
class _Bench:
    """What the stages share: `chip` is what the ceilings found."""

    device: Device
    sizes: Sizes
    report: Report
    begun: float
    chip: Chip | None = None

    def tell(self, text: str) -> None:
        print(f"{time.monotonic() - self.begun:6.1f} s  {text}", file=sys.stderr, flush=True)

    def known_chip(self) -> Chip:
        if self.chip is None:
            self.chip, figures = ceilings(self.device, self.sizes)
            self.add(figures)
        return self.chip

    def add(self, figures: Iterable[Figure]) -> None:
        for one in figures:
            share = "" if one.share is None else f", {one.share:.1%} of {one.best}"
            value = "none" if one.value is None else f"{one.value:,.4g} {one.unit}"
            self.tell(f"{one.stage}: {one.name}: {value}{share}")
            self.report.figures.append(one)


def _compile(bench: _Bench) -> None:
    if bench.device.device.type != "cuda":
        return
    target = bench.report.facts["family"]
    rows = needed(target, launched(bench.sizes, bench.device.dtype, target))
    bench.report.compiled, wrongs = compile_rows(target, rows, bench.tell)
    bench.report.late += wrongs


def _check(bench: _Bench) -> None:
    family = bench.report.facts["family"]
    bench.report.checks += check(bench.device, bench.sizes, family, bench.tell)


def _check_logits(bench: _Bench) -> None:
    bench.report.checks.append(check_logits(bench.device, bench.sizes))


def _ceilings(bench: _Bench) -> None:
    bench.known_chip()


def _timed(measure: Callable[[Device, Sizes, Chip], Iterable[Figure]]) -> Callable[[_Bench], None]:
    return lambda bench: bench.add(measure(bench.device, bench.sizes, bench.known_chip()))


STAGES: dict[str, tuple[float, Callable[[_Bench], None]]] = {
    "compile": (90, _compile),
    "kernels": (90, _check),
    "logits": (40, _check_logits),
    "ceilings": (5, _ceilings),
    "decode": (10, _timed(attention_times.decodes)),
    "prefill": (10, _timed(attention_times.prompts)),
    "fused": (10, _timed(kernel_times.fused_kernels)),
    "draws": (10, _timed(kernel_times.draws)),
    "step": (15, _timed(decode_step)),
    "engine": (60, _timed(throughput)),
    "host": (30, lambda bench: bench.add(host_time(bench.device, bench.sizes))),
    "flex": (60, lambda bench: bench.add(attention_times.flex(bench.device, bench.sizes))),
}
"""By name: seconds that it may take, and what it does."""


def run(
    *, interpreted: bool, only: Sequence[str] | None, minutes: float, folder: Path | None
) -> int:
    """See `main`.

    Args:
        folder: For the results; `None` keeps none.
    """
    unknown = [name for name in only or () if name not in STAGES]
    if unknown:
        print(f"there is no stage {unknown[0]!r}, only {', '.join(STAGES)}", file=sys.stderr)
        return 2
    if not interpreted and not torch.cuda.is_available():
        print(_NO_GPU.format(torch.__version__), file=sys.stderr, end="")
        return 2
    if interpreted and (why := why_not_interpreted()):
        print(why, file=sys.stderr)
        return 2
    device: Device = Interpreted() if interpreted else Gpu()
    sizes, facts = TINY if interpreted else FULL, device.facts()
    try:
        attention_tiles(facts["family"], sizes.model.head_dim, device.dtype, device.dtype)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    report = Report(facts, asdict(sizes))
    bench = _Bench(device, sizes, report, time.monotonic())
    _run_all(bench, only or [*STAGES], 60 * minutes, folder)
    print(page(report))
    return 1 if report.wrongs else 0


def _run_all(bench: _Bench, names: Sequence[str], limit: float, folder: Path | None) -> None:
    report, late = bench.report, Late()
    logger = logging.getLogger("server_reference.kernels.launch")
    logger.addHandler(late)
    bench.tell(", ".join(report.facts.values()))
    for name, (takes, stage) in STAGES.items():
        begun = time.monotonic()
        if name not in names:
            continue
        if begun - bench.begun + takes > limit:
            report.left_out.append(name)
            continue
        bench.tell(f"stage {name}")
        cached = num_cached()
        try:
            with torch.no_grad():
                stage(bench)
        except Exception as error:  # the other stages have been paid for
            traceback.print_exc()
            report.failed[name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        gc.collect()  # of what a stage that failed held
        bench.device.forget()
        report.cached[name] = num_cached() - cached
        report.seconds[name] = round(time.monotonic() - begun, 1)
        report.late, late.told = report.late + late.told, []
        if folder is not None:
            report.save(folder)
    logger.removeHandler(late)
