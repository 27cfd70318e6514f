"""The command line: `scripts/bench [NAME ...]`, `scripts/bench --gate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from . import figures, gate

__all__ = ["BENCHMARKS", "main"]

BENCHMARKS = {
    "load": "load",
    "prefix": "prefix",
    "import": "first_call",
    "connections": "connections",
    "decode": "decode",
    "scripted": "scripted",
    "caching": "caching",
    "budgets": "budgets",
    "numerics": "numerics",
    "engine": "engine",
    "fleet": "fleet",
}
"""Each benchmark's name, and the module that runs it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; 1 when a bar is missed."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}, only {', '.join(BENCHMARKS)}")
    if options.save and options.quick:
        parser.error("--quick measures nothing worth keeping; leave out one of both")
    if options.update and not options.gate:
        parser.error("--update belongs to --gate")
    if options.gate:
        return gate.main(update=options.update)
    outcomes = []
    for name in options.names or BENCHMARKS:
        module: Any = import_module(f"{__package__}.{BENCHMARKS[name]}")
        sizes = module.QUICK if options.quick else module.Sizes()
        outcomes.append(module.run(sizes, lambda text, name=name: _show(f"{name}: {text}")))
        _show("")
        if options.save:
            figures.save(outcomes[-1])
    print(figures.table(outcomes))
    return 0 if all(one.is_held for one in outcomes) or options.quick else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure, or count.")
    names = ", ".join(BENCHMARKS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{names} (default: all)")
    parser.add_argument("--save", action="store_true", help="keep the figures in results/")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: see that it runs")
    parser.add_argument("--gate", action="store_true", help="count instructions and compare")
    parser.add_argument("--update", action="store_true", help="with --gate: record the counts")
    return parser


def _show(text: str) -> None:
    """What goes on, on one line of a terminal, or a line each elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
