"""Compile what will be launched, in as many processes as there are cores, into Triton's cache."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from triton import knobs

from server_reference.kernels.aot_processes import CompilerError, compile_all
from server_reference.kernels.manifest import Row, rows

__all__ = ["Late", "compile_rows", "needed", "num_cached"]


class Late(logging.Handler):
    """Keeps what was compiled only when it was launched."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


def needed(target: str, others: Sequence[Row] = ()) -> list[Row]:
    """The manifest's rows, and others."""
    return list(dict.fromkeys([*rows(target), *others]))


def num_cached() -> int:
    """Entries of Triton's cache."""
    folder = Path(knobs.cache.dir)
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def compile_rows(
    target: str, wanted: Sequence[Row], tell: Callable[[str], None]
) -> tuple[dict[str, float], list[str]]:
    """Compile; how much, how long it took, and what did not go well."""
    begun = time.perf_counter()

    def progress(done: int, total: int, what: str) -> None:
        tell(f"{done}/{total} {what}")

    at_once = min(len(wanted), os.cpu_count() or 2, 32)
    jobs = [(target, row) for row in wanted]
    try:
        _, results = compile_all(jobs, at_once=at_once, keep=True, progress=progress)
    except CompilerError as error:
        return {}, [str(error)]
    wrongs = [f"{one.row.kernel}: {text}" for one in results for text in one.wrongs]
    took = time.perf_counter() - begun
    return {"rows": len(wanted), "processes": at_once, "seconds": round(took, 1)}, wrongs
