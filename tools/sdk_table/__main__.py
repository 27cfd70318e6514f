"""Run presets against every client; print their rows, or write the page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from server_reference.scripted.faults.registry import PRESETS, unknown_fault

from .page import PAGE, line, render
from .rows import CASES, Row, row

__all__ = ["main", "rows"]

_AT_ONCE = 4  # most of a run is waiting


def main(arguments: Sequence[str] | None = None) -> int:
    """Without names all presets are run, and the page is written."""
    parser = argparse.ArgumentParser(prog="python -m tools.sdk_table", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PRESET", help="run these, and print them")
    names = parser.parse_args(arguments).names
    for name in names:
        if name not in PRESETS:
            parser.error(unknown_fault(name, PRESETS))
    if names:
        for one in rows(names):
            print(line(one))
        return 0
    PAGE.write_text(render(list(rows(list(PRESETS)))), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


def rows(names: Sequence[str]) -> Iterator[Row]:
    """The rows in order; how far it is shows on standard error."""
    alone = {name: row(name) for name in names if CASES[name].alone}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        waiting = {name: pool.submit(row, name) for name in names if name not in alone}
        for number, name in enumerate(names, 1):
            yield alone[name] if name in alone else waiting[name].result()
            print(f"\r{number}/{len(names)} {name:<32}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
