"""How many prompt tokens a step may compute beside decodes without delaying them much."""

from __future__ import annotations

__all__ = ["PrefillPace"]

_LEAST = 2  # tokens: a prompt goes on, however slow it is; one costs nearly as much
_FIRST = 16  # before anything is known
_MOST_MIXED = 16  # steps in a row


class PrefillPace:
    """Learns what decodes and prompt tokens cost, and keeps mixed steps short.

    A step with both may last `stretch` times as long as one with its decodes alone; to know
    how long that is, every so often there is one. A token that turns out dearer is believed
    sooner, as the next ones of a long prompt are too. Where more sequences wait than run,
    throughput counts for more and the limit grows with them.

    Args:
        stretch: Above 1.
        weight: Of the newest measurement in the moving averages, above 0, at most 1; twice
            as much after mixed steps, and where a prompt's token got dearer.
    """

    def __init__(self, *, stretch: float = 1.8, weight: float = 0.3) -> None:
        if stretch <= 1 or not 0 < weight <= 1:
            limits = "stretch must be above 1, weight above 0 and at most 1"
            raise ValueError(f"{limits}, not {stretch!r} and {weight!r}")
        self._stretch, self._weight = stretch, weight
        self._decode: float | None = None  # seconds of a step with decodes only
        self._prefill: float | None = None  # seconds of a prompt token
        self._num_mixed = 0  # steps with both since the last one with decodes only

    def observe(self, *, num_decodes: int, num_prefill_tokens: int, duration: float) -> None:
        """Learn from a step that took `duration` seconds."""
        if num_prefill_tokens:
            base = (self._decode or 0.0) if num_decodes else 0.0
            cost = max(duration - base, 0.05 * duration) / num_prefill_tokens
            is_dearer = self._prefill is not None and cost > self._prefill
            self._prefill = self._mean(self._prefill, cost, in_haste=is_dearer)
            self._num_mixed += bool(num_decodes)
        elif num_decodes:
            self._decode = self._mean(self._decode, duration, in_haste=self._num_mixed > 0)
            self._num_mixed = 0

    def limit(self, *, num_running: int = 0, num_waiting: int = 0) -> int:
        """Prompt tokens for the next step, if it has decodes."""
        if self._num_mixed >= _MOST_MIXED:
            return 0
        if self._decode is None or self._prefill is None:
            return _FIRST
        crowd = max(1.0, num_waiting / max(1, num_running))
        allowed = (self._stretch - 1) * self._decode / max(self._prefill, 1e-9)
        return max(_LEAST, int(crowd * allowed))

    def _mean(self, old: float | None, new: float, *, in_haste: bool) -> float:
        weight = min(1.0, 2 * self._weight) if in_haste else self._weight
        return new if old is None else old + weight * (new - old)
