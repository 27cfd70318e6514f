"""The prefixes that a prompt cache holds, each until it expires."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["CacheEntries"]


@dataclass(slots=True)
class _Entry:
    ttl: float
    expires_at: float
    ends_at: float  # however often it is used


class CacheEntries:
    """Bounded; the entry used longest ago goes first."""

    def __init__(self, max_entries: int) -> None:
        self._max = max_entries
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def is_live(self, key: bytes, now: float) -> bool:
        """Whether it can be read; an expired one is forgotten."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        if now >= entry.expires_at:
            del self._entries[key]
            return False
        return True

    def refresh(self, key: bytes, started_at: float) -> None:
        """Let a live entry's time begin anew at the start of the request that used it."""
        entry = self._entries[key]
        fresh = min(started_at + entry.ttl, entry.ends_at)
        entry.expires_at = max(entry.expires_at, fresh)
        self._entries.move_to_end(key)

    def write(
        self, key: bytes, started_at: float, ttl: float, *, at_most: float | None = None
    ) -> None:
        """Keep a prefix from the start of the request that wrote it.

        Args:
            at_most: Seconds after which it goes even when it is used.
        """
        ends_at = float("inf") if at_most is None else started_at + at_most
        entry = _Entry(ttl, started_at + ttl, ends_at)
        old = self._entries.get(key)
        if old is not None and old.expires_at > entry.expires_at:
            entry = old
        self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > self._max:
            self._entries.popitem(last=False)

    def evict(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()
