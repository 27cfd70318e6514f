"""Entries as rows of a spreadsheet, and back."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import IO, Any

import msgspec

from .entry import Entry
from .lines import checked

__all__ = ["COLUMNS", "entries_of", "write"]

COLUMNS = (
    "at day tags provider model endpoint status error attempts uncached cache_read cache_write "
    "output reasoning partial inconsistent cost at_least missing savings request_id"
).split()

_STRUCTURED = frozenset({"tags", "missing", "cache_write"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")  # a spreadsheet would run what begins so
_NAMES = frozenset({"provider", "model", "endpoint", "error", "request_id"})


def write(file: IO[str], entries: Iterable[Entry]) -> None:
    """Put `entries` into `file`, with the names of the columns before them.

    Lists are JSON. A name that a spreadsheet would take for a formula gets a `'` before it.
    """
    rows = csv.DictWriter(file, COLUMNS)  # of its line ends, `\r` too is quoted in a name
    rows.writeheader()
    for entry in entries:
        told = msgspec.to_builtins(entry) | {"day": entry.day}
        rows.writerow({name: _cell(name, told[name]) for name in COLUMNS})


def entries_of(file: IO[str]) -> Iterator[Entry | None]:
    """The entries of `file`, `None` for each row that is none."""
    for row in csv.DictReader(file):
        try:
            yield checked(_entry(row))
        except (ValueError, TypeError, KeyError, RecursionError, msgspec.ValidationError):
            yield None


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in _STRUCTURED:
        is_empty = not value and name != "cache_write"  # {} says that nothing was written
        return "" if is_empty else json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if name in ("cost", "at_least", "savings"):
        return f"{Decimal(text):f}"
    return f"'{text}" if name in _NAMES and text.startswith(_FORMULA) else text


def _entry(row: dict[str, str | None]) -> Entry:
    told: dict[str, Any] = {name: _value(name, row[name]) for name in COLUMNS if name != "day"}
    known = {name: value for name, value in told.items() if value is not None}
    return msgspec.convert(known, Entry, strict=False)


def _value(name: str, text: str | None) -> Any:
    if text is None:
        raise ValueError(f"the row ends before {name}")
    if text == "":
        return None
    if name in _STRUCTURED:
        return json.loads(text)
    return text[1:] if name in _NAMES and text.startswith("'") else text
