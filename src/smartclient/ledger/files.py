"""Ledgers as files: written as a whole, and read line by line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from .._whole_file import replacing
from .entry import Entry
from .lines import encoded, entry_in

__all__ = ["Format", "entries", "write"]

Format = Literal["jsonl", "csv"]

_LONGEST = 1 << 20  # bytes of a line that are looked at


def write(path: Path, found: Sequence[Entry], form: Format) -> None:
    """Put `found` into `path`; who reads it sees the old file or the whole new one.

    Raises:
        OSError: It cannot be written.
        ValueError: There is no such format.
    """
    if form not in get_args(Format):
        raise ValueError(f"format must be one of {', '.join(get_args(Format))}, not {form!r}")
    with replacing(path) as file:
        if form == "csv":
            from .sheet import write as write_rows

            write_rows(file, found)
        else:
            file.writelines(encoded(entry).decode() for entry in found)


def entries(path: Path) -> Iterator[Entry | None]:
    """The entries of `path` one after the other, `None` for each line that is none.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no ledger.
    """
    with path.open("rb") as file:
        if file.peek(3).startswith(b"at,"):  # nothing is taken: it may be a pipe
            yield from _rows(file, path)
        else:
            yield from _lines(file)


def _lines(file: BinaryIO) -> Iterator[Entry | None]:
    while line := file.readline(_LONGEST):
        if not line.endswith(b"\n"):
            _skip_line(file)  # too long for an entry, or the last
        if line.strip():
            yield entry_in(line)


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(_LONGEST)) and not rest.endswith(b"\n"):
        pass


def _rows(file: BufferedReader, path: Path) -> Iterator[Entry | None]:
    from .sheet import entries_of

    with TextIOWrapper(file, encoding="utf-8", errors="replace", newline="") as text:
        try:
            yield from entries_of(text)
        except csv.Error as error:
            raise ValueError(f"{path} is a broken spreadsheet: {error}") from None
