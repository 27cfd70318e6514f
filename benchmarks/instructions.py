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
_TIMEOUT = 240.0  # seconds for one process


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
        here = {"PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
        self._environment = {**here, **environment}

    def per_step(self, path: Path) -> float:
        """Instructions of one step of `path`."""
        self._run([], path)  # also writes the bytecode of what it imports
        found = _TOTAL.search(self._run(_tool(), path))
        if found is None or found[1] == "0":
            raise CountError(
                f"valgrind counted nothing in {path.name}: does it find the symbol ffi_call?"
            )
        return int(found[1]) / path.steps

    def _run(self, tool: list[str], path: Path) -> str:
        command = [*tool, sys.executable, "-m", "benchmarks.paths", path.name]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
            )
        except subprocess.TimeoutExpired as error:
            raise CountError(f"{path.name} took more than {_TIMEOUT:.0f} s; count less") from error
        if done.returncode != 0:
            raise CountError(f"{path.name} failed ({done.returncode}):\n{done.stderr.strip()}")
        return done.stderr


def _tool() -> list[str]:
    """callgrind, counting inside `ffi_call` only; see `paths/__main__.py`."""
    valgrind, setarch = shutil.which("valgrind"), shutil.which("setarch")
    assert valgrind is not None
    same_addresses = [setarch, "-R"] if setarch is not None else []
    options = ["--callgrind-out-file=/dev/null", "--toggle-collect=ffi_call"]
    return [*same_addresses, valgrind, "--tool=callgrind", *options]
