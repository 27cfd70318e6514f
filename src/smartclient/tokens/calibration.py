"""Counts corrected by what earlier calls really used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from math import exp, isfinite, log, sqrt
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec import Struct, convert

from ..wire import Usage
from ..wire.usage import MOST_TOKENS, changes_input
from .calibration_file import read, write
from .encodings import bare_name
from .tally import listed
from .values import TokenCount

__all__ = ["Calibrator", "Lesson", "is_a_lesson"]

_KEPT = 0.98  # of what is known, with each new lesson: some fifty count
_CLIP = 2.0  # deviations from what is expected, beyond which a lesson is drawn nearer
_TRUST = 3  # lessons before a count is corrected
_PRIOR_RATIO, _PRIOR_INTERCEPT = 0.1, 1.0  # lessons that the estimate itself is worth
_PRIOR_BAND = 2.0
_NARROWEST = 0.003
_WIDEST = 10_000.0  # that a spread can be, of one token counted as 10**40 and the reverse
_Z = 1.645  # standard deviations from the median to p95


class Lesson(Struct):
    """What is known about one kind of request: a line through its lessons.

    Each is `actual / estimate` over `1 / estimate`, so that errors count in proportion; the
    line's height is the ratio, its slope the tokens that every request has on top.

    Attributes:
        n, p, q: How many count, and sums of `1 / estimate` and of its square.
        z, pz: Sums of `actual / estimate`, and of that times `1 / estimate`.
        spread: Mean square of what was left over, as a logarithm.
        seen: How many lessons there were.
    """

    n: float = 0.0
    p: float = 0.0
    q: float = 0.0
    z: float = 0.0
    pz: float = 0.0
    spread: float = 0.0
    seen: int = 0

    def is_possible(self) -> bool:
        """Whether lessons can have come to these sums, so that there is a line through them."""
        if self.n == 0.0:
            return self.p == self.q == self.z == self.pz == 0.0
        return self.n >= 1.0 and self.p**2 <= 1.001 * self.n * self.q and self.spread <= _WIDEST

    def line(self) -> tuple[float, float]:
        """The ratio and the intercept."""
        if not self.n:
            return 1.0, 0.0
        a, b, c = self.n + _PRIOR_RATIO, self.p, self.q * (1.0 + _PRIOR_INTERCEPT / self.n)
        right = self.z + _PRIOR_RATIO
        determinant = a * c - b * b  # above 0, since the prior is
        return (c * right - b * self.pz) / determinant, (a * self.pz - b * right) / determinant

    def expected(self, estimate: float) -> float:
        ratio, intercept = self.line()
        return max(0.05 * estimate, ratio * estimate + intercept)

    def deviation(self, prior: float) -> float:
        """How far, as a logarithm, the next one will lie from what is expected."""
        weight = self.n + _PRIOR_BAND
        square = (self.n * self.spread + _PRIOR_BAND * prior * prior) / weight
        return max(_NARROWEST, sqrt(square * (1.0 + 1.0 / (self.n + 1.0))))

    def learn(self, estimate: float, actual: float, prior: float) -> None:
        """Take in one call; one far from what is expected moves it as far as a near one."""
        off = log(actual / self.expected(estimate))
        limit = _CLIP * self.deviation(prior)
        clipped = max(-limit, min(limit, off))
        x, y = 1.0 / estimate, exp(clipped) * self.expected(estimate) / estimate
        before = self.n * _KEPT
        self.n = before + 1.0
        self.p = self.p * _KEPT + x
        self.q = self.q * _KEPT + x * x
        self.z = self.z * _KEPT + y
        self.pz = self.pz * _KEPT + x * y
        left = log(max(1e-9, y * estimate) / self.expected(estimate))
        self.spread = (before * self.spread + left * left) / self.n
        self.seen += 1


class Calibrator:
    """Learns from the usage of earlier calls how far counts are off, and corrects them.

    Apart for each provider, model and kind of content. Safe to share between threads.

    Args:
        size: Most models and kinds that are kept; the one unused for longest is dropped.
    """

    def __init__(self, size: int = 256) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1 model and kind, not {size}")
        self._size = size
        self._lock = Lock()
        self._lessons: OrderedDict[tuple[str, str, str], Lesson] = OrderedDict()

    def __len__(self) -> int:
        return len(self._lessons)

    def observe(
        self,
        counted: TokenCount,
        usage: Usage | int | None,
        *,
        provider: str,
        model: str,
        reply: Mapping[str, Any] | None = None,
        is_complete: bool = True,
    ) -> bool:
        """Learn what a call used that was counted before it was sent.

        Args:
            counted: What `count` said.
            usage: What the provider said; of it, all input tokens, cached or not.
            provider: Who served it.
            model: Which model.
            reply: The reply, where it is at hand: one with tools that ran at the provider,
                or with a compacted conversation, teaches nothing.
            is_complete: Whether the reply came to its end.

        Returns:
            Whether anything was learned.
        """
        actual = usage.input_tokens if isinstance(usage, Usage) else usage
        if not actual or not 0 < actual <= MOST_TOKENS or counted.estimate <= 0 or not is_complete:
            return False
        if reply is not None and not is_a_lesson(reply):
            return False
        key = (provider, bare_name(model), counted.kind)
        with self._lock:
            lesson = self._lessons.setdefault(key, Lesson())
            self._lessons.move_to_end(key)
            lesson.learn(float(counted.estimate), float(actual), _prior(counted))
            while len(self._lessons) > self._size:
                self._lessons.popitem(last=False)
        return True

    def corrected(self, counted: TokenCount, *, provider: str, model: str) -> TokenCount:
        """`counted` by what was learned; itself, before enough was."""
        with self._lock:
            lesson = self._lessons.get((provider, bare_name(model), counted.kind))
            if lesson is None or lesson.seen < _TRUST or counted.estimate <= 0:
                return counted
            mid = lesson.expected(float(counted.estimate))
            band = exp(_Z * lesson.deviation(_prior(counted)))
        return TokenCount(
            p05=int(mid / band),
            p50=round(mid),
            p95=int(mid * band + 0.999),
            source="calibrated",
            kind=counted.kind,
            estimate=counted.estimate,
            unknown=counted.unknown,
        )

    def save(self, path: str | Path) -> None:
        """Write what was learned to `path`, whole or not at all.

        Raises:
            OSError: It cannot be written.
        """
        with self._lock:
            rows = [
                [*key, *(getattr(lesson, name) for name in lesson.__struct_fields__)]
                for key, lesson in self._lessons.items()
            ]
        write(Path(path), rows)

    @classmethod
    def load(cls, path: str | Path, size: int = 256) -> Calibrator:
        """What `save` wrote.

        Raises:
            OSError: It cannot be read.
            ValueError: It is no such file, or a broken one.
        """
        calibrator = cls(size)
        for (provider, model, kind), numbers in read(Path(path), len(Lesson.__struct_fields__)):
            fields = dict(zip(Lesson.__struct_fields__, numbers, strict=True))
            lesson = convert({**fields, "seen": int(fields["seen"])}, Lesson)
            if not lesson.is_possible():
                raise ValueError(
                    f"{path} is a broken calibration: what it holds about {model!r} cannot have "
                    "been learned"
                )
            calibrator._lessons[provider, model, kind] = lesson
        while len(calibrator._lessons) > size:
            calibrator._lessons.popitem(last=False)
        return calibrator


def is_a_lesson(reply: Mapping[str, Any]) -> bool:
    """Whether the input tokens of `reply` are those of its request alone."""
    usage = reply.get("usage")
    if isinstance(usage, Mapping):
        used = usage.get("server_tool_use")
        if isinstance(used, Mapping) and any(used.values()):
            return False
        if usage.get("iterations"):
            return False
    edited = reply.get("context_management")
    if isinstance(edited, Mapping) and edited.get("applied_edits"):
        return False
    parts = [*listed(reply.get("content")), *listed(reply.get("output"))]
    return not any(isinstance(part, Mapping) and changes_input(part.get("type")) for part in parts)


def _prior(counted: TokenCount) -> float:
    """The deviation that the count itself claims."""
    high = max(counted.p95, counted.estimate, 1) / max(counted.p50, 1)
    found = log(high) / _Z if counted.source != "calibrated" else 0.1
    return max(_NARROWEST, min(1.0, found)) if isfinite(found) else 1.0
