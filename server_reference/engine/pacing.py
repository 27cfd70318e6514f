"""How many prompt tokens a step may compute beside decodes without delaying them much."""

from __future__ import annotations

__all__ = ["PrefillPace"]

_LEAST = 16  # tokens: a prompt goes on, however slow it is
_STALE = 32  # mixed steps, after which decodes alone may take another time than they did


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
        self._mixed = 0  # steps since the last one with decodes only

    def observe(self, *, num_decodes: int, num_prefill_tokens: int, duration: float) -> None:
        """Learn from a step that took `duration` seconds."""
        if num_prefill_tokens:
            base = (self._decode or 0.0) if num_decodes else 0.0
            cost = max(duration - base, 0.05 * duration) / num_prefill_tokens
            self._prefill = self._mean(self._prefill, cost)
            self._mixed += num_decodes > 0
        elif num_decodes:
            self._decode = self._mean(self._decode, duration)
            self._mixed = 0

    def limit(self, *, num_running: int = 0, num_waiting: int = 0) -> int:
        """Prompt tokens for the next step, if it has decodes.

        Now and then there are none, to see how long decodes take alone: under load no step is
        without prompt tokens by itself, and all that decodes come to take would be blamed on them.
        """
        if self._decode is None or self._mixed >= _STALE:
            return 0
        if self._prefill is None:
            return _LEAST
        crowd = max(1.0, num_waiting / max(1, num_running))
        allowed = (self._stretch - 1) * self._decode / max(self._prefill, 1e-9)
        return max(_LEAST, int(crowd * allowed))

    def _mean(self, old: float | None, new: float) -> float:
        return new if old is None else old + self._weight * (new - old)
