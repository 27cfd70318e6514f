"""Compile the committed kernels for chips that are not here: a table of what became of them.

`python -m server_reference.kernels.aot` ends with status 1 where a row spills, takes more shared
memory than the chip has, or multiplies without a matrix unit.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..command_numbers import at_least_one
from ..printing import print_lines
from .aot_processes import CompilerError, Job, Result, compile_all
from .aot_report import Report
from .manifest import MANIFEST, TARGETS, Row, read

__all__ = ["main", "table"]

_NEWS = 5.0  # seconds between lines of progress where there is no terminal

_NOTE = """\
A launch whose row is not in the manifest of the device's target is an error: it would be compiled
in the middle of a step. SMARTCLIENT_JIT=1 in the environment, or --jit of a command that runs an
engine, allows it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile and print; 1 where something is wrong with a row, 2 where nothing is compiled."""
    options = _parser().parse_args(arguments)
    try:
        jobs = _jobs(options)
    except (OSError, ValueError) as error:
        print(f"aot: {error}", file=sys.stderr)
        return 2
    show = _Progress()
    try:
        version, results = compile_all(jobs, at_once=options.jobs, keep=options.keep, progress=show)
    except CompilerError as error:
        print(f"aot: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        show.end()
    print_lines([_as_json(results) if options.json else table(results, version)])
    return 1 if any(result.wrongs for result in results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m server_reference.kernels.aot",
        description="Compile the kernels of the manifest. No GPU is needed.",
        epilog=_NOTE,
    )
    parser.add_argument(
        "--target", action="append", choices=TARGETS, help="only for these chips; may be repeated"
    )
    parser.add_argument(
        "--kernel",
        action="append",
        metavar="NAME",
        help="only this one, or this module's; likewise",
    )
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument(
        "--jobs", type=at_least_one, default=2, metavar="N", help="compilers at once (2)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="compile all, into Triton's cache, for launches here"
    )
    parser.add_argument(
        "--manifest", type=Path, default=MANIFEST, metavar="FILE", help="other rows than our own"
    )
    return parser


def _jobs(options: argparse.Namespace) -> list[Job]:
    """What was asked for, target by target.

    Raises:
        OSError: The manifest cannot be read.
        ValueError: It is none, or has no such row.
    """
    rows = read(options.manifest)
    for name in options.kernel or ():
        if not any(_is_named(row, [name]) for row, _ in rows):
            modules = sorted({row.kernel.partition(":")[0] for row, _ in rows})
            raise ValueError(f"no row is of {name!r}; there are rows of {', '.join(modules)}")
    jobs = [
        (target, row)
        for target in dict.fromkeys(options.target or TARGETS)
        for row, targets in rows
        if target in targets and (not options.kernel or _is_named(row, options.kernel))
    ]
    if not jobs:
        raise ValueError(f"{options.manifest} has no such row for the targets that were asked for")
    return jobs


def _is_named(row: Row, names: Sequence[str]) -> bool:
    module, _, function = row.kernel.partition(":")
    return any(name in (row.kernel, module, function) for name in names)


class _Progress:
    """What goes on: on one line of a terminal, or now and then a line elsewhere."""

    def __init__(self) -> None:
        self._told = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, done: int, total: int, what: str) -> None:
        text = f"{done}/{total} {what}"
        if self._is_terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif (now := time.monotonic()) - self._told > _NEWS:
            self._told = now
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def table(results: Sequence[Result], version: str) -> str:
    """All rows, target by target; what is wrong with one stands below it."""
    lines = []
    for target in dict.fromkeys(result.target for result in results):
        some = [result for result in results if result.target == target]
        wrong = sum(bool(result.wrongs) for result in some)
        lines += [f"{target}, triton {version}: {len(some)} rows, {wrong} wrong", _HEAD]
        for result in some:
            lines.append(_line(result))
            lines += [f"        wrong: {text}" for text in result.wrongs]
        lines.append("")
    return "\n".join(lines).rstrip()


_COLUMNS = "{:>9}  {:>6}  {:>7}  {:<14}  {:<18}  {}"
_HEAD = _COLUMNS.format(
    "registers", "spills", "shared", "matrix", "bytes × loads", "kernel, types, constants"
)


def _line(result: Result) -> str:
    own = result.row.configuration
    constants = " ".join(f"{name}={value}" for name, value in own.constants)
    types = " ".join(result.row.types)
    what = (
        f"{result.row.kernel} ({types}) {constants} "
        f"num_warps={own.num_warps} num_stages={own.num_stages}"
    )
    report = result.report
    if report is None:
        return _COLUMNS.format("-", "-", "-", "-", "-", what)
    loads = " ".join(f"{width}×{count}" for width, count in sorted(report.loads.items())[::-1])
    return _COLUMNS.format(
        report.registers,
        report.spilled_bytes,
        f"{report.shared_bytes:,}",
        _matrix(report),
        loads or "-",
        what,
    )


def _matrix(report: Report) -> str:
    found = [f"{name}×{count}" for name, count in report.matrix.items()]
    if report.exact_products and not report.products:
        found.append("exempt" if found else "none: exempt")
    return " ".join(found) or ("none" if report.products else "-")


def _as_json(results: Sequence[Result]) -> str:
    listed = [
        {
            "target": result.target,
            **result.row.as_json(),
            "report": None if result.report is None else asdict(result.report),
            "wrongs": result.wrongs,
            "seconds": result.seconds,
        }
        for result in results
    ]
    return json.dumps(listed, indent=1)


if __name__ == "__main__":
    # As Ctrl-C: compilers end, and what they wrote is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
