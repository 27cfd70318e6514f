"""Tables for a terminal, for Markdown, and for a spreadsheet."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal

__all__ = ["as_csv", "dollars", "markdown", "number", "plain", "shown", "table"]

_FORMULA = ("=", "+", "-", "@")
_LONGEST = 60


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, last: bool = False
) -> str:
    """Columns under their names, two spaces apart.

    Args:
        left: So many columns begin at the left; the others, of numbers, end at the right.
        last: The last column begins at the left too.
    """
    cells = [list(columns), *(_shown(row, last=last) for row in rows)]
    widths = [max(_width(row[at]) for row in cells) for at in range(len(columns))]
    lines = []
    for row in cells:
        sides = [at < left or (last and at == len(row) - 1) for at in range(len(row))]
        padded = map(_padded, row, widths, sides)
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _shown(row: Sequence[str], *, last: bool) -> list[str]:
    rest = [shown(row[-1], longest=None)] if last else []
    return [*(shown(cell) for cell in (row[:-1] if last else row)), *rest]


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """The same as a table of Markdown."""
    sides = ["---" if at < left else "---:" for at in range(len(columns))]
    lines = [columns, sides, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The same for a spreadsheet, which takes no name for a formula."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_safe(shown(cell, longest=None)) for cell in row] for row in rows)
    return file.getvalue().rstrip("\n")


def dollars(amount: Decimal | None) -> str:
    """`$1,234.56`, and small amounts with as many digits as tell something."""
    if amount is None:
        return "unknown"
    if amount == 0:
        return "$0"
    places = 2 if abs(amount) >= 100 else 4 if abs(amount) >= Decimal("0.1") else 6
    rounded = f"{amount:,.{places}f}"
    if not rounded.strip("-0.,"):
        return "<$0.000001" if amount > 0 else ">-$0.000001"
    return f"-${rounded[1:]}" if rounded.startswith("-") else f"${rounded}"


def number(count: int, name: str) -> str:
    """`1 call`, `2,000 calls`."""
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def plain(amount: Decimal | None) -> str | None:
    """Every digit, without an exponent: for programs."""
    return None if amount is None else f"{amount:f}"


def shown(text: str, longest: int | None = _LONGEST) -> str:
    """What came from a file, without what a terminal would obey, and not too long."""
    clean = "".join(one if one.isprintable() else "\ufffd" for one in text)
    if longest is None or len(clean) <= longest:
        return clean
    return f"{clean[: longest // 3]}…{clean[longest // 3 + 1 - longest :]}"  # names end tellingly


def _safe(cell: str) -> str:
    is_number = cell.removeprefix("-").replace(".", "", 1).isdigit()
    return f"'{cell}" if cell.startswith(_FORMULA) and not is_number else cell


def _padded(cell: str, width: int, is_left: bool) -> str:
    room = " " * (width - _width(cell))
    return cell + room if is_left else room + cell


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)
