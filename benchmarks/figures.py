"""What a benchmark finds: figures, some with a bar, and how they are shown and kept."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

__all__ = ["RESULTS", "Figure", "Outcome", "Progress", "figure", "page", "read", "save", "table"]

RESULTS = Path(__file__).with_name("results")

Progress: TypeAlias = Callable[[str], None]
"""Told what is being measured now."""

_PACKAGES = (
    "openai anthropic httpx aiohttp torch transformers msgspec httptools redis limits"
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number.

    Args:
        name: What was measured.
        value: A median, or a ratio of two medians of one run.
        unit: `ratio`, or a unit of time.
        bar: Most that it may be; `None`: recorded without one.
        floor: Least that it may be, likewise.
        runs: How many measurements the median is of.
    """

    name: str
    value: float
    unit: str
    bar: float | None = None
    runs: int = 1
    floor: float | None = None

    @property
    def verdict(self) -> str:
        if self.bar is None and self.floor is None:
            return ""
        is_low = self.bar is None or self.value <= self.bar
        return "held" if is_low and self.value >= (self.floor or 0.0) else "missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one benchmark found, and on how much.

    Args:
        sizes: Every number that the figures depend on.
        facts: What was counted on the way, to see that the right thing was measured.
    """

    name: str
    sizes: Mapping[str, Any]
    figures: list[Figure]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def is_held(self) -> bool:
        return all(one.verdict != "missed" for one in self.figures)


def figure(
    name: str, samples: Iterable[float], unit: str, *, scale: float = 1.0, bar: float | None = None
) -> Figure:
    """The median of `samples`, each in seconds, times `scale`."""
    values = list(samples)
    return Figure(name=name, value=median(values) * scale, unit=unit, bar=bar, runs=len(values))


def table(outcomes: Iterable[Outcome]) -> str:
    """All figures, for a terminal."""
    rows = [(outcome.name, *_cells(one)) for outcome in outcomes for one in outcome.figures]
    head = ("benchmark", "figure", "value", "bar", "")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = []
    for row in [head, *rows]:
        texts = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        texts[2], texts[3] = row[2].rjust(widths[2]), row[3].rjust(widths[3])
        lines.append("  ".join(texts).rstrip())
    return "\n".join(lines)


def _cells(one: Figure) -> tuple[str, str, str, str]:
    bar = "" if one.bar is None else f"<= {_number(one.bar)}"
    bar = bar if one.floor is None else f">= {_number(one.floor)}"
    unit = "" if one.unit == "ratio" else f" {one.unit}"
    return one.name, f"{_number(one.value)}{unit}", bar, one.verdict


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def save(outcome: Outcome, folder: Path = RESULTS) -> None:
    """Keep `outcome` with the machine and the versions, and write the page anew."""
    folder.mkdir(exist_ok=True)
    record = {
        "measured_at": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": _machine(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        **asdict(outcome),
    }
    (folder / f"{outcome.name}.json").write_text(json.dumps(record, indent=2) + "\n")
    (folder / "README.md").write_text(page(read(folder)))


def read(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """What was kept, by name."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def page(records: Iterable[Mapping[str, Any]]) -> str:
    """The kept results as a page of Markdown."""
    lines = ["# Results", "", "Written by `scripts/bench --save`; what is measured, and how, is in"]
    lines += ["[the reference](../../docs/reference/benchmarks.md)."]
    for record in records:
        lines += ["", f"## {record['name']}", ""]
        lines += [f"{record['measured_at']}, {record['machine']}, Python {record['python']}."]
        lines += ["", "| figure | value | bar | |", "| --- | ---: | ---: | --- |"]
        for fields in record["figures"]:
            lines.append(f"| {' | '.join(_cells(Figure(**fields)))} |")
    return "\n".join(lines) + "\n"


def _machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip()
        for line in (cpuinfo.read_text().splitlines() if cpuinfo.exists() else [])
        if line.startswith("model name")
    ]
    return f"{len(names)} x {names[0]}" if names else platform.machine()
