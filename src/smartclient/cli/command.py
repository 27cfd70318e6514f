"""The commands, how they are asked for, and how they end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING

from ..catalog import Catalog, catalog_of
from . import cost, tokens
from .models import UnknownModelError
from .requests import UnreadableError
from .tables import shown

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may know ASCII only
    name = "smartclient"
    try:
        options = _options(arguments)
        name = f"smartclient {options.command}"
        _print(options.run(options, _catalog(options.catalog)))
    except (UnreadableError, UnknownModelError) as error:
        return _refused(name, str(error))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:  # of stdout: all others are told as what cannot be read
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing fails at exit
        if isinstance(error, BrokenPipeError):  # the reader has seen enough
            return _PIPE_CLOSED
        return _refused(name, f"stdout cannot be written: {error.strerror or error}")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    try:
        return _parser().parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()  # of --help, which may not be lost in silence
        raise


class _Parser(argparse.ArgumentParser):
    """One that fails where its help cannot be written; argparse says nothing, and ends with 0."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        print(self.format_help(), end="", file=file)


class _Version(argparse.Action):
    """Looks the version up when it is asked for: that reads a file."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"smartclient {version('smartclient')}")
        parser.exit()


def _refused(name: str, why: str) -> int:
    print(f"{name}: {shown(why, longest=None)}", file=sys.stderr)
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
    parser = _Parser(
        prog="smartclient",
        description="Counts and prices requests before they are sent.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show which version this is, and end"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    tokens.add_command(commands)
    cost.add_command(commands)
    return parser
