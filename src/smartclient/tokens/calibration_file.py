"""What was learned about counts, in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .._whole_file import replacing

__all__ = ["FORMAT", "Row", "read", "write"]

FORMAT = "smartclient token calibration 1"
_LONGEST = 16 << 20  # bytes that are read at most
_KEY = 3
_MOST = 10**18

Row = tuple[tuple[str, str, str], list[float]]


def write(path: Path, rows: list[list[Any]]) -> None:
    """Put `rows` into `path`; who reads it sees the old file or the whole new one."""
    body = json.dumps({"format": FORMAT, "lessons": rows}, ensure_ascii=False)
    with replacing(path) as file:
        file.write(body + "\n")


def read(path: Path, numbers: int) -> list[Row]:
    """The rows of `path`, each a provider, a model, a kind, and `numbers` numbers.

    Raises:
        OSError: It cannot be read.
        ValueError: It is another file, or a broken one.
    """
    with path.open("rb") as file:
        data = file.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise ValueError(f"{path} is over {_LONGEST:,} bytes, so it is no calibration")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no calibration: it is no JSON ({error})") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        shown = found.get("format") if isinstance(found, dict) else type(found).__name__
        raise ValueError(f"{path} is no calibration: its format is {shown!r}, not {FORMAT!r}")
    lessons = found.get("lessons")
    if not isinstance(lessons, list):
        raise ValueError(f"{path} is a broken calibration: it has no list of lessons")
    return [_row(path, number, row, numbers) for number, row in enumerate(lessons)]


def _row(path: Path, number: int, row: Any, numbers: int) -> Row:
    if not isinstance(row, list) or len(row) != _KEY + numbers:
        raise ValueError(f"{path} is a broken calibration: lesson {number} has not its parts")
    key, values = row[:_KEY], row[_KEY:]
    is_right = all(isinstance(part, str) for part in key) and all(
        isinstance(value, (int, float)) and 0 <= value <= _MOST for value in values
    )
    if not is_right:
        raise ValueError(
            f"{path} is a broken calibration: lesson {number} must be three names and "
            f"{numbers} numbers from 0 to {_MOST:,}"
        )
    return (key[0], key[1], key[2]), [float(value) for value in values]
