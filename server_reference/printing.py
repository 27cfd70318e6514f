"""Print for people, and for programs that stop reading when they have seen enough."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

__all__ = ["print_lines"]


def print_lines(lines: Iterable[str]) -> None:
    """Print to standard output; what nobody reads, or no more, as with `| head`, is no error."""
    try:
        for line in lines:
            print(line)
        print(end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor at exit
