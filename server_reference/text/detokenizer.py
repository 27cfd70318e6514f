"""Turn tokens into text as they come: whole characters, and never part of a stop string.

A token is bytes, and may end within a character; a stop string may span tokens. What may
still become one or the other is held back until the next token or the end.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

__all__ = ["Detokenizer"]


class Detokenizer:
    """The text of one output. The prompt is never part of it.

    Args:
        token_bytes: Bytes of a token id.
        stop: Strings that end the text. The match that ends first wins, whatever the
            tokens' boundaries; of two that end together, the longer one.

    Attributes:
        stopped_by: The stop string that came, or `None`.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], *, stop: tuple[str, ...] = ()) -> None:
        self.stopped_by: str | None = None
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stop = tuple(text for text in stop if text)
        self._longest = max(map(len, self._stop), default=0)
        self._beginnings = frozenset(text[0] for text in self._stop)
        self._held = ""  # decoded, but perhaps the beginning of a stop string

    def push(self, token_id: int, *, may_stop: bool = True) -> str:
        """The text that a further token makes certain; nothing once a stop string came.

        Without `may_stop` no stop string ends or begins in it.
        """
        data, decoder = self._token_bytes(token_id), self._decoder
        # What the decoder would say, in a fraction of its time.
        new = data.decode() if data.isascii() and not decoder.buffer else decoder.decode(data)
        is_plain = not self._held and self._beginnings.isdisjoint(new) and not self.stopped_by
        return new if is_plain or not may_stop else self._release(new)

    def flush(self) -> str:
        """What was held back, at the end; an unfinished character becomes U+FFFD."""
        text = self._release(self._decoder.decode(b"", True))
        if self.stopped_by is None:
            text += self._held
        self._held = ""
        return text

    def _release(self, new: str) -> str:
        if not self._stop:
            return new
        if self.stopped_by is not None:
            return ""
        text = self._held + new
        match = self._first_stop(text)
        if match is not None:
            start, self.stopped_by = match
            return text[:start]
        certain = len(text) - self._possible_stop(text)
        self._held = text[certain:]
        return text[:certain]

    def _first_stop(self, text: str) -> tuple[int, str] | None:
        found = [(text.find(stop), stop) for stop in self._stop]
        ends = [(start + len(stop), start, stop) for start, stop in found if start >= 0]
        return min(ends)[1:] if ends else None

    def _possible_stop(self, text: str) -> int:
        """Characters at the end of `text` that a stop string may begin with."""
        for length in range(min(len(text), self._longest - 1), 0, -1):
            tail = text[-length:]
            if any(stop.startswith(tail) for stop in self._stop):
                return length
        return 0
