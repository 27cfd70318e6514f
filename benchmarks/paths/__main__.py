"""Run one path: `python -m benchmarks.paths NAME`, which `--gate` does under valgrind.

valgrind is told to count inside `ffi_call` only, which is where `ctypes` calls a function of
C, and the steps are run by such a call. So neither the start of the interpreter nor
imports, set-up and warm-up are counted.
"""

from __future__ import annotations

import ctypes
import gc
import sys

from . import PATHS, WARM_UP, prepare

__all__ = ["main"]


def main(arguments: list[str]) -> None:
    """Warm up the path that is named, then run its steps where they are counted."""
    steps = PATHS[arguments[0]].steps
    gc.disable()  # a collection would fall into one step or the next
    step = prepare(arguments[0])

    def run() -> int:
        for _ in range(steps):
            step()
        return steps

    for _ in range(WARM_UP):
        step()
    call = ctypes.pythonapi.PyObject_CallNoArgs
    call.argtypes, call.restype = [ctypes.py_object], ctypes.py_object
    assert call(run) == steps


if __name__ == "__main__":
    main(sys.argv[1:])
