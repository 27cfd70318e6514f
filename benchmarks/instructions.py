"""Count the instructions of a path, with valgrind."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping

from .paths import Path
from .processes import ROOT

__all__ = ["CountError", "Counter", "has_valgrind"]

_TOTAL = re.compile(r"Collected\s*:\s*([0-9]+)")
_TIMEOUT = 120.0  # seconds for one process


class CountError(RuntimeError):
    """A path could not be counted."""


def has_valgrind() -> bool:
    """Whether there is something to count with."""
    return shutil.which("valgrind") is not None


class Counter:
    """Counts the instructions that the steps of a path take, in a fresh process.

    Args:
        environment: What the path finds there besides what makes runs alike.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Nothing else of the caller's: the size of an environment moves what lies behind it.
        self._environment = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", **environment}

    def per_step(self, path: Path) -> float:
        """Instructions of one step of `path`."""
        self._run([], path)  # also writes the bytecode of what it imports
        found = _TOTAL.search(self._run(_tool(), path))
        if found is None:
            raise CountError(f"valgrind printed no total for {path.name}; run it by hand")
        return int(found[1]) / path.steps

    def _run(self, tool: list[str], path: Path) -> str:
        done = subprocess.run(
            [*tool, sys.executable, "-m", "benchmarks.paths", path.name],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
        )
        if done.returncode != 0:
            raise CountError(f"{path.name} failed ({done.returncode}):\n{done.stderr.strip()}")
        return done.stderr


def _tool() -> list[str]:
    """callgrind, counting inside `ffi_call` only; see `paths/__main__.py`."""
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    same_addresses = ["setarch", "-R"] if shutil.which("setarch") else []
    return [*same_addresses, *tool, "--toggle-collect=ffi_call"]
