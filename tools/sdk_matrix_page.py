"""The results on `docs/reference/sdk-versions.md`: written after a run, and read back."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .sdk_matrix import Outcome

__all__ = ["PAGE", "Row", "rows", "told_tests", "with_results"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "sdk-versions.md"
_BEGIN = "<!-- written by python -m tools.sdk_matrix --write -->\n"
_END = "<!-- the end of what is written -->\n"
_PACKAGES = ("openai", "anthropic", "httpx", "httpx2")


class Row(NamedTuple):
    """What the page tells of one pair."""

    pair: str
    openai: str
    anthropic: str
    httpx: str
    httpx2: str
    passed: int
    failed: int
    skipped: int


def with_results(page: str, outcomes: Sequence[Outcome], *, today: str) -> str:
    """`page` with what came of `outcomes` in the place of what it told before.

    Raises:
        ValueError: The page has no such place.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page must hold the lines {_BEGIN.strip()} and {_END.strip()}")
    lines = "\n".join(_results(outcomes, today))
    return f"{before}{begin}\n{lines}\n\n{end}{after}"


def rows(page: str) -> list[Row]:
    """What the page tells of each pair."""
    found = re.findall(r"^\| (\S+\+\S+) \| (.*) \|$", page, re.MULTILINE)
    cells = [[pair, *rest.split(" | ")] for pair, rest in found]
    return [Row(*one[:5], *map(int, one[5:])) for one in cells]


def told_tests(page: str) -> set[str]:
    """The names of the tests on the page."""
    return set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def _results(outcomes: Sequence[Outcome], today: str) -> Iterator[str]:
    yield f"Run on {today} with Python {platform.python_version()} on {platform.system()}."
    yield ""
    yield f"| pair | {' | '.join(_PACKAGES)} | passed | failed | skipped |"
    yield f"| --- |{' --- |' * len(_PACKAGES)} ---: | ---: | ---: |"
    for one in outcomes:
        versions = dict(part.split(" ") for part in one.versions.split(", "))
        told = [versions.get(package, "-") for package in _PACKAGES]
        counts = [str(one.counted[how]) for how in ("passed", "failed", "skipped")]
        yield f"| {one.pair} | {' | '.join(told + counts)} |"
    yield ""
    yield "How often each test passed, under the pairs in that order:"
    yield ""
    yield f"| test | {' | '.join(map(str, range(1, len(outcomes) + 1)))} |"
    yield f"| --- |{' ---: |' * len(outcomes)}"
    for name in dict.fromkeys(name for one in outcomes for name in one.cases):
        cells = [one.cases.get(name) for one in outcomes]
        told = [str(cell["passed"] or "-") if cell is not None else "-" for cell in cells]
        yield f"| `{name}` | {' | '.join(told)} |"
