"""How many prompt tokens a step may compute beside decodes without delaying them much."""

from __future__ import annotations

from .step import Step

__all__ = ["PrefillPace"]

_LEAST = 16  # tokens: a prompt goes on, however slow it is


class PrefillPace:
    """Learns what decodes and prompt tokens cost, and keeps mixed steps short.

    A step with both may last `stretch` times as long as one with its decodes alone. Where
    more sequences wait than run, throughput counts for more and the limit grows with them.

    Args:
        stretch: Above 1.
        weight: Of the newest measurement in the moving averages, above 0, at most 1.
    """

    def __init__(self, *, stretch: float = 1.8, weight: float = 0.3) -> None:
        if stretch <= 1 or not 0 < weight <= 1:
            limits = "stretch must be above 1, weight above 0 and at most 1"
            raise ValueError(f"{limits}, not {stretch!r} and {weight!r}")
        self._stretch, self._weight = stretch, weight
        self._decode: float | None = None  # seconds of a step with decodes only
        self._prefill: float | None = None  # seconds of a prompt token

    def observe(self, step: Step) -> None:
        """Learn from a step that has run. A decode stays one whatever guesses come with it."""
        prompts = [one.num_tokens for one in step.scheduled if one.num_tokens > 1 + one.num_drafts]
        duration, has_decodes = step.duration or 0.0, len(prompts) < len(step.scheduled)
        if prompts:
            base = (self._decode or 0.0) if has_decodes else 0.0
            cost = max(duration - base, 0.05 * duration) / sum(prompts)
            self._prefill = self._mean(self._prefill, cost)
        else:
            self._decode = self._mean(self._decode, duration)

    def limit(self, *, num_running: int = 0, num_waiting: int = 0) -> int:
        """Prompt tokens for the next step, if it has decodes."""
        if self._decode is None or self._prefill is None:
            return _LEAST
        crowd = max(1.0, num_waiting / max(1, num_running))
        allowed = (self._stretch - 1) * self._decode / max(self._prefill, 1e-9)
        return max(_LEAST, int(crowd * allowed))

    def _mean(self, old: float | None, new: float) -> float:
        return new if old is None else old + self._weight * (new - old)
