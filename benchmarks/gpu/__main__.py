"""The command line: `scripts/gpu`, `python -m benchmarks.gpu --interpret`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from server_reference.command_numbers import positive

__all__ = ["main"]

_RESULTS = Path(__file__).parents[1] / "results" / "gpu"
_ABOUT = "Check every kernel on this machine's GPU, then time kernels, steps and the engine."
_NEEDS = "this needs torch, triton, numpy, safetensors and tokenizers: PYTHON names another Python"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 where a kernel disagrees with its twin or a stage fails, 2 where nothing can run."""
    options = _parser().parse_args(arguments)
    # Before triton is imported: it decides once.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # triton 3.9 warns where it is not set
    os.environ.setdefault("SMARTCLIENT_JIT", "1")  # what is compiled late is told, not refused
    if options.interpret:
        os.environ["TRITON_INTERPRET"] = "1"
    try:
        from .stages import run
    except ModuleNotFoundError as error:
        print(f"{sys.executable} has no {error.name}; {_NEEDS}", file=sys.stderr)
        return 2

    return run(
        interpreted=options.interpret,
        only=options.only,
        minutes=options.minutes,
        folder=options.output or (None if options.interpret else _RESULTS),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/gpu", description=_ABOUT)
    parser.add_argument(
        "--interpret",
        action="store_true",
        help="tiny sizes in Triton's interpreter, on the CPU: see that it runs",
    )
    parser.add_argument(
        "--only", action="append", metavar="STAGE", help="only this stage; may be repeated"
    )
    parser.add_argument(
        "--minutes",
        type=positive,
        default=7.5,
        metavar="M",
        help="no stage begins too late for it",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="for the results (benchmarks/results/gpu)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
