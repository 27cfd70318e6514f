"""What one lane wrote to the cache and nobody has read yet."""

from __future__ import annotations

from math import inf

__all__ = ["Pending"]

_MAX_PIECES = 64


class Pending:
    """Pieces of a prefix, by tokens from its start, each until it expires.

    Reads take from the front: who reads so many tokens has read every piece before that.
    """

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[tuple[int, int, float]] = []  # start, end, when it expires

    def __len__(self) -> int:
        return len(self._pieces)

    def expired(self, now: float) -> int:
        """Drop what nobody can read any more; tokens of it."""
        gone = sum(end - start for start, end, until in self._pieces if until <= now)
        self._pieces = [piece for piece in self._pieces if piece[2] > now]
        return gone

    def read(self, tokens: int) -> None:
        """Drop what is read now."""
        self._pieces = [
            (max(start, tokens), end, until) for start, end, until in self._pieces if end > tokens
        ]

    def write(self, start: int, tokens: int, until: float | None) -> int:
        """Keep a new piece; tokens that it is written in place of, unread.

        Args:
            until: When it expires; `None` for never.
        """
        if tokens <= 0:
            return 0
        end, replaced, kept = start + tokens, 0, []
        for old, old_end, old_until in self._pieces:
            replaced += max(0, min(end, old_end) - max(start, old))
            kept += [
                (left, right, old_until)
                for left, right in ((old, min(old_end, start)), (max(old, end), old_end))
                if left < right
            ]
        kept.append((start, end, inf if until is None else until))
        self._pieces = kept[-_MAX_PIECES:]  # the oldest are forgotten, not judged
        return replaced
