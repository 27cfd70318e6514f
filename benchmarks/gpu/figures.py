"""What was found: checks that hold or not, and times with what they are a share of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Check", "Figure", "Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One kernel on one input, beside its twin.

    Args:
        error: The largest difference, as a multiple of what is allowed; `None`: there is no
            number for it.
        wrong: What is wrong; empty: nothing is.
    """

    kernel: str
    case: str
    error: float | None
    wrong: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a figure should come to.

    Args:
        value: What it came to.
        least: What it should be at least.
        what: Of the figure is held to it.
    """

    value: float
    least: float
    what: str

    @property
    def is_held(self) -> bool:
        return self.value >= self.least


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number.

    Args:
        stage: Of the benchmark.
        value: `None` where it cannot be measured here.
        share: Of what the chip could do at its best.
        best: What that is.
        beside: The same of others, in the same unit; or why there is none.
        note: What else is to be known of it.
    """

    stage: str
    name: str
    value: float | None
    unit: str
    share: float | None = None
    best: str = ""
    beside: Mapping[str, float | str] = field(default_factory=dict)
    target: Target | None = None
    note: str = ""
