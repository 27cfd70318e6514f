"""`scripts/bench --gate`: instruction counts of fixed paths beside the committed ones."""

from __future__ import annotations

import json
import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from .instructions import Counter, CountError, has_valgrind
from .paths import CALIBRATION, PATHS
from .processes import running_upstream

__all__ = ["BASELINE", "TOLERANCE", "Entry", "Row", "compare", "key", "main", "measure", "read"]

BASELINE = Path(__file__).with_name("baseline.json")
TOLERANCE = 0.10

_PACKAGES = ("msgspec", "httptools", "tenacity", "toktok-rs")
_AT_ONCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The counts of one Python and machine.

    Args:
        build: The interpreter's full version and compiler.
        packages: Versions of those whose instructions are among the counted.
        counts: Instructions per step, by path, the calibration among them.
    """

    build: str
    packages: dict[str, str]
    counts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One path: its count, and what it is held to; `None` for a path that is new."""

    name: str
    count: int
    expected: float | None

    @property
    def change(self) -> float:
        """The share by which the count grew; a new path counts as unchanged."""
        return self.count / self.expected - 1.0 if self.expected else 0.0

    @property
    def is_held(self) -> bool:
        return self.expected is not None and self.change <= TOLERANCE

    @property
    def verdict(self) -> str:
        if self.expected is None:
            return "has no baseline"
        if not self.is_held:
            return "too many"
        return "held" if self.change >= -TOLERANCE else "held, far below"


def key() -> str:
    """What a baseline is recorded for: the minor version of Python, and the machine."""
    name = platform.python_implementation().lower()
    return f"{name}-{sys.version_info.major}.{sys.version_info.minor}-{platform.machine()}"


def measure() -> Entry:
    """Count every path, here and now."""
    counts: dict[str, int] = {}
    with running_upstream() as (url, _), ThreadPoolExecutor(_AT_ONCE) as pool:
        counter = Counter({"BENCHMARKS_UPSTREAM": url})
        jobs = {pool.submit(counter.per_step, path): name for name, path in PATHS.items()}
        try:
            for job in as_completed(jobs):
                counts[jobs[job]] = round(job.result())
                _say(f"{len(counts):>2} of {len(jobs)} counted: {jobs[job]}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return Entry(
        build=f"{platform.python_version()} {platform.python_compiler()}",
        packages={name: version(name) for name in _PACKAGES},
        counts={name: counts[name] for name in PATHS},
    )


def compare(measured: Entry, recorded: Entry) -> list[Row]:
    """Each path beside what it is held to, in proportion to the calibration of each."""
    scale = measured.counts[CALIBRATION] / recorded.counts[CALIBRATION]
    rows = []
    for name, count in measured.counts.items():
        before = recorded.counts.get(name)
        expected = None if before is None else before * scale
        rows.append(Row(name=name, count=count, expected=expected))
    return rows


def read(path: Path = BASELINE) -> dict[str, Entry]:
    """The committed baselines, by `key`."""
    if not path.exists():
        return {}
    return {name: Entry(**fields) for name, fields in json.loads(path.read_text()).items()}


def main(*, update: bool, baseline: Path = BASELINE) -> int:
    """Compare, or with `update` record; the exit status."""
    if not has_valgrind():
        _say("valgrind is missing, so nothing is counted; on Debian: apt install valgrind")
        return 1 if update or os.environ.get("CI") == "true" else 0
    recorded = read(baseline)
    if not update and key() not in recorded:
        known = ", ".join(recorded) or "nothing"
        _say(f"no baseline for {key()}, only for {known}; nothing is compared")
        return 0
    try:
        measured = measure()
    except CountError as error:
        _say(str(error))
        return 1
    if update:
        entries = recorded | {key(): measured}
        plain = {name: asdict(entry) for name, entry in sorted(entries.items())}
        baseline.write_text(json.dumps(plain, indent=2) + "\n")
        return 0
    return _judge(measured, recorded[key()])


def _judge(measured: Entry, recorded: Entry) -> int:
    """Print the table and what may explain it; the exit status."""
    rows = compare(measured, recorded)
    print(f"{'path':<26}{'instructions':>14}{'expected':>14}{'change':>9}  verdict")
    for row in rows:
        expected = "" if row.expected is None else f"{row.expected:,.0f}"
        print(f"{row.name:<26}{row.count:>14,}{expected:>14}{row.change:>+9.1%}  {row.verdict}")
    for name, here in measured.packages.items():
        if here != recorded.packages.get(name):
            _say(f"{name} is {here} here, the baseline's was {recorded.packages.get(name)}")
    if measured.build != recorded.build:
        _say(f"this is Python {measured.build}, the baseline's was {recorded.build}")
    missed = [row.name for row in rows if not row.is_held]
    if missed:
        _say(
            f"{', '.join(missed)}: not within {TOLERANCE:.0%} of the baseline; where the "
            "instructions are worth it, record them with scripts/bench --gate --update"
        )
    return 1 if missed else 0


def _say(text: str) -> None:
    print(f"scripts/bench: {text}", file=sys.stderr, flush=True)
