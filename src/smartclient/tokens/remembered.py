"""Counts of texts that were seen before, so that a growing chat costs its new turn only."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Remembered"]

_Key = tuple[int, int]


class Remembered:
    """A bounded table of counts, by hash and length: the texts themselves are not kept.

    Two generations stand in for an order of use: what is asked for moves to the young one,
    and when that is full the old one is dropped. Every step is one operation on a dict, so
    threads need no lock.

    Args:
        size: Most counts that are kept.
    """

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._young: dict[_Key, float] = {}
        self._old: dict[_Key, float] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, texts: Sequence[str]) -> tuple[float, list[str]]:
        """The sum of what is known of `texts`, and those that are not."""
        young, old = self._young, self._old
        known, missing = 0.0, []
        for text in texts:
            key = (hash(text), len(text))
            number = young.get(key)
            if number is None:
                number = old.get(key)
                if number is None:
                    missing.append(text)
                    continue
                self._keep(key, number)
            known += number
        return known, missing

    def put(self, texts: Sequence[str], numbers: Sequence[float]) -> None:
        """Keep the count of each of `texts`."""
        for text, number in zip(texts, numbers, strict=True):
            self._keep((hash(text), len(text)), number)

    def _keep(self, key: _Key, number: float) -> None:
        if len(self._young) >= self._half:
            self._young, self._old = {}, self._young
        self._young[key] = number
