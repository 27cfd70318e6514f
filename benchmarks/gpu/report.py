"""What a run found, as JSON and as a page of Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .figures import Check, Figure

__all__ = ["Report", "page"]


@dataclass(slots=True)
class Report:
    """All that is known so far.

    Args:
        facts: Chip, versions, date.
        sizes: Every number that the figures depend on.
        failed: What a stage raised, by its name.
        left_out: Stages for which no time was left.
        late: Kernels that were compiled only when they were launched.
        cached: What Triton's cache gained in each stage: kernels, and launchers of them.
    """

    facts: dict[str, str]
    sizes: dict[str, Any]
    compiled: dict[str, float] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    cached: dict[str, int] = field(default_factory=dict)

    @property
    def wrongs(self) -> list[str]:
        """What makes the status 1."""
        checks = [f"{one.kernel} ({one.case}): {one.wrong}" for one in self.checks if one.wrong]
        return checks + [f"{stage}: {told}" for stage, told in self.failed.items()]

    def save(self, folder: Path) -> list[Path]:
        """Write both, named by the chip, over what was there."""
        folder.mkdir(parents=True, exist_ok=True)
        words = "".join(one if one.isalnum() else " " for one in self.facts["chip"].lower())
        stem = folder / "-".join(words.split())
        paths = [stem.with_suffix(".json"), stem.with_suffix(".md")]
        paths[0].write_text(json.dumps(asdict(self), indent=1, allow_nan=False) + "\n")
        paths[1].write_text(page(self))
        return paths


def page(report: Report) -> str:
    """Figures by stage, then what was checked."""
    facts = report.facts
    versions = ", ".join(f"{name} {told}" for name, told in facts.items() if name not in _OWN)
    lines = [f"# {facts['chip']}", "", f"{facts['measured_at']}; {versions}.", ""]
    lines += ["| stage | of | value | share of the best | beside | target | |"]
    lines += ["| --- | --- | ---: | ---: | --- | --- | --- |"]
    lines += [f"| {' | '.join(_cells(one))} |" for one in report.figures]
    wrong = [one for one in report.checks if one.wrong]
    held = len(report.checks) - len(wrong)
    lines += ["", "## Checks", "", f"{held} of {len(report.checks)} agree with their twins."]
    lines += [f"- {text}" for text in report.wrongs]
    lines += [f"- left out, as no time was left: {stage}" for stage in report.left_out]
    lines += [f"- {text}" for text in report.late]
    return "\n".join(lines) + "\n"


_OWN = ("chip", "measured_at")


def _cells(one: Figure) -> list[str]:
    beside = "; ".join(f"{name} {_told(value)}" for name, value in one.beside.items())
    target = verdict = ""
    if one.target is not None:
        goal = one.target
        target = f"{goal.what}: {_told(goal.value)}, at least {_told(goal.least)}"
        verdict = "held" if goal.is_held else "missed"
    share = "" if one.share is None else f"{one.share:.1%} of {one.best}"
    value = "none" if one.value is None else f"{_told(one.value)} {one.unit}"
    return [_plain(text) for text in (one.stage, one.name, value, share, beside, target, verdict)]


def _told(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _plain(text: str) -> str:
    """In a cell of a table."""
    return text.replace("|", "/").replace("\n", " ")
