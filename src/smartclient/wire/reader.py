"""The bytes of an event stream, read once for everyone who wants to know what they say."""

from __future__ import annotations

from ._base import Adapter, Part
from .sse import MAX_EVENT_BYTES, SSEDecoder

__all__ = ["EventReader"]


class EventReader:
    """Turns the bytes of one stream into parts; after the terminal one nothing is read.

    Args:
        adapter: What understands the stream's format.
        max_event_bytes: The largest event that is read.
    """

    __slots__ = (
        "_decoder",
        "_has_begun",
        "_is_over",
        "_part",
    )

    def __init__(self, adapter: Adapter, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._part = adapter.part
        # Where an answer ends by finishing, the mark after it is no end of one that never began.
        self._has_begun = not adapter.finish_is_end
        self._decoder = SSEDecoder(max_event_bytes=max_event_bytes)
        self._is_over = False

    def feed(self, data: bytes) -> list[Part]:
        """Take the next bytes; the parts that they complete.

        Data that is not of the format is a part whose `failure` says so.

        Raises:
            EventTooLargeError: An event crosses the decoder's bound.
        """
        if self._is_over:
            return []
        parts: list[Part] = []
        noted = None
        for event in self._decoder.feed(data):
            part = self._part(event)
            delta = part.delta
            if delta is noted:  # most events say the same as the one before
                parts.append(part)
                continue
            noted = delta
            self._has_begun = self._has_begun or delta.has_tokens or bool(delta.finished)
            self._is_over = delta.is_terminal
            if self._is_over and not self._has_begun:
                break  # a server that lost its error: the stream ends early
            parts.append(part)
            if self._is_over:
                break
        return parts

    def take_comments(self) -> list[str]:
        """The comments since the last time, in their order."""
        taken = self._decoder.comments
        if taken:
            self._decoder.comments = []
        return taken
