"""Run `tests/sdk_matrix` under pairs of SDK versions, each in a venv of its own.

Called as `python -m tools.sdk_matrix [--write | PAIR...]`, where a pair is `OPENAI+ANTHROPIC`,
such as `1.109+0.125`; without one every pair of the known versions runs. `latest` is the newest
of a major version: `2.latest`. `--write` puts what came of all of them into
`docs/reference/sdk-versions.md`. A venv is made once, below the user's cache, and made anew when
what belongs into it has changed, or when it is removed: that is how a newer `latest` is found.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from .sdk_matrix_page import PAGE, with_results

__all__ = ["ANTHROPIC", "OPENAI", "PAIRS", "Outcome", "Pair", "main", "pair_of", "read", "table"]

ROOT = Path(__file__).resolve().parent.parent
TESTS = "tests/sdk_matrix"
OPENAI = ("1.109", "2.latest", "3.latest")
ANTHROPIC = ("0.125", "1.latest", "2.latest")
ALSO = (
    "pytest>=8.3",
    "pytest-timeout>=2.3",
    "trustme>=1.2",
    "boto3>=1.35",
    "pytest-httpx>=0.35",
    "respx>=0.22",
    "vcrpy>=8.2",
    "opentelemetry-instrumentation-httpx>=0.55b0",
    "opentelemetry-sdk>=1.27,<2",
    "aiohttp>=3.11",
    "httpx-aiohttp>=0.1",
)
"""What the tests need beside smartclient and the SDKs."""

_VERSION = re.compile(r"(\d+)\.(\d+|latest)")


@dataclass(frozen=True)
class Pair:
    """One version of each SDK."""

    openai: str
    anthropic: str

    def __str__(self) -> str:
        return f"{self.openai}+{self.anthropic}"

    @property
    def requirements(self) -> list[str]:
        return [_requirement("openai", self.openai), _requirement("anthropic", self.anthropic)]


@dataclass
class Outcome:
    """What came of one pair.

    Attributes:
        versions: What was installed.
        cases: How often each test passed, failed and was skipped.
        error: Why nothing ran.
    """

    pair: Pair
    versions: str = ""
    cases: dict[str, Counter[str]] = field(default_factory=dict)
    error: str = ""

    @property
    def counted(self) -> Counter[str]:
        """How many cases passed, failed and were skipped."""
        return sum(self.cases.values(), Counter[str]())

    @property
    def is_good(self) -> bool:
        counted = self.counted
        return not self.error and counted["passed"] > 0 and not counted["failed"]


PAIRS = tuple(Pair(one, other) for one in OPENAI for other in ANTHROPIC)


def pair_of(text: str) -> Pair:
    """The pair that a command line names.

    Raises:
        ValueError: It names none.
    """
    versions = text.split("+")
    if len(versions) != 2 or not all(map(_VERSION.fullmatch, versions)):
        raise ValueError(
            f"{text!r} is no pair of versions; write OPENAI+ANTHROPIC, such as 1.109+0.125 "
            "or 2.latest+1.latest"
        )
    return Pair(*versions)


def _requirement(package: str, version: str) -> str:
    major, _, minor = version.partition(".")
    if minor == "latest":
        return f"{package}>={major},<{int(major) + 1}"
    return f"{package}=={version}.*"


def read(report: str) -> dict[str, Counter[str]]:
    """The cases of a JUnit report, by the name of their test."""
    cases: dict[str, Counter[str]] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = (case.get("name") or "").partition("[")[0].removeprefix("test_")
        kinds = {child.tag for child in case}
        how = "failed" if kinds & {"failure", "error"} else "passed"
        cases.setdefault(name, Counter())["skipped" if "skipped" in kinds else how] += 1
    return cases


def table(outcomes: Sequence[Outcome]) -> str:
    """One line for each test, one column for each pair."""
    names = list(dict.fromkeys(name for one in outcomes for name in one.cases))
    corner = "openai+anthropic"
    width = max(map(len, [corner, *names]))
    columns = [max(len(str(one.pair)), 8) for one in outcomes]
    head = [str(one.pair).rjust(size) for one, size in zip(outcomes, columns, strict=True)]
    lines = ["  ".join([corner.ljust(width), *head])]
    for name in names:
        cells = [
            _cell(one.cases.get(name, Counter())).rjust(size)
            for one, size in zip(outcomes, columns, strict=True)
        ]
        lines.append("  ".join([name.replace("_", " ").ljust(width), *cells]))
    return "\n".join(lines)


def _cell(counted: Counter[str]) -> str:
    if counted["failed"]:
        return f"{counted['failed']} failed"
    return f"{counted['passed']} pass" if counted["passed"] else "-"


def _run(pair: Pair, cache: Path) -> Outcome:
    outcome = Outcome(pair)
    try:
        python = _venv(pair, cache)
    except subprocess.CalledProcessError as error:
        outcome.error = f"its venv could not be made: {' '.join(error.stderr.split()[-40:])}"
        return outcome
    outcome.versions = _versions(python)
    report = python.parent.parent / "report.xml"
    report.unlink(missing_ok=True)
    options = ["-q", "-p", "no:cacheprovider", "--confcutdir", TESTS, f"--junitxml={report}"]
    environment = {
        name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")
    }
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ran = subprocess.run(
        [python, "-m", "pytest", *options, TESTS],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    if report.exists():
        outcome.cases = read(report.read_text())
    if not outcome.is_good:
        print(ran.stdout + ran.stderr, file=sys.stderr)
        outcome.error = outcome.error or ("" if outcome.cases else "pytest could not run")
    return outcome


def _venv(pair: Pair, cache: Path) -> Path:
    """The Python of the venv of `pair`, made where it is missing or outdated."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *pair.requirements, *ALSO]
    stamp = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()
    folder = cache / str(pair)
    python, done = folder / "bin" / "python", folder / "stamp"
    if python.exists() and done.exists() and done.read_text() == stamp:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _quietly([sys.executable, "-m", "venv", "--without-pip", folder])
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    _quietly([*pip, "--disable-pip-version-check", *wanted])
    done.write_text(stamp)
    return python


def _quietly(command: Sequence[str | Path]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _versions(python: Path) -> str:
    names = ("openai", "anthropic", "httpx", "httpx2")
    code = (
        "from importlib.metadata import distributions as d; n = {x.name: x.version for x in d()};"
        f"print(', '.join(k + ' ' + n[k] for k in {names!r} if k in n))"
    )
    return _quietly([python, "-c", code]).strip()


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("SDK_MATRIX_CACHE") or Path(base) / "smartclient" / "sdk-matrix")


def main(arguments: Sequence[str], run: Callable[[Pair, Path], Outcome] = _run) -> int:
    """Run the pairs that are named, or all; return the exit code."""
    named = [text for text in arguments if text != "--write"]
    is_written = len(named) < len(arguments)
    try:
        pairs = [pair_of(text) for text in named] or list(PAIRS)
        if is_written and named:
            raise ValueError("--write tells of all pairs; name none of them")
    except ValueError as error:
        print(f"sdk_matrix: {error}", file=sys.stderr)
        return 2
    outcomes = []
    for number, pair in enumerate(pairs, 1):
        start = time.monotonic()
        print(f"{number}/{len(pairs)} {pair}: ", end="", flush=True)
        outcome = run(pair, _cache())
        said = outcome.error or ", ".join(
            f"{n} {how}" for how, n in sorted(outcome.counted.items())
        )
        print(f"{said} in {time.monotonic() - start:.0f} s ({outcome.versions})", flush=True)
        outcomes.append(outcome)
    print(f"\n{table(outcomes)}")
    if not all(one.is_good for one in outcomes):
        return 1
    if is_written:
        today = time.strftime("%Y-%m-%d", time.gmtime())
        PAGE.write_text(with_results(PAGE.read_text(), outcomes, today=today))
        print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
