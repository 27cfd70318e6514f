"""The commands, how they are asked for, and how they end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from io import TextIOWrapper

from ..catalog import Catalog, catalog_of
from . import cost, tokens
from .models import UnknownModelError
from .requests import UnreadableError
from .tables import shown

__all__ = ["main"]

_BAD_INPUT = 2
_INTERRUPTED = 130  # 128 and the signal, as a shell says it
_PIPE_CLOSED = 141
_EXAMPLES = """examples:
  smartclient tokens request.json
  smartclient cost request.json --calls 100

each command explains itself with --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status.

    What cannot be done is one sentence on stderr and status 2.
    """
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may know ASCII only
    try:
        _print(options.run(options, _catalog(options.catalog)))
    except (UnreadableError, UnknownModelError) as error:
        return _refused(options.command, str(error))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:  # of stdout: all others are told as what cannot be read
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing fails at exit
        if isinstance(error, BrokenPipeError):  # the reader has seen enough
            return _PIPE_CLOSED
        return _refused(options.command, f"stdout cannot be written: {error.strerror or error}")
    return 0


def _refused(command: str, why: str) -> int:
    print(f"smartclient {command}: {shown(why, longest=None)}", file=sys.stderr)
    return _BAD_INPUT


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
    sys.stdout.flush()


def _catalog(path: str | None) -> Catalog:
    try:
        return catalog_of(path)
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UnreadableError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="smartclient",
        description="Counts and prices requests before they are sent.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    tokens.add_command(commands)
    cost.add_command(commands)
    return parser
