"""What a wire format is to the front: reads requests, writes replies and streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from .chat import ChatRequest
from .errors import ApiError
from .events import Finished, Started, TextDelta

__all__ = ["Answer", "StreamWriter", "WireFormat", "encode", "sse"]

encode = msgspec.json.encode


def sse(data: bytes, *, event: str | None = None) -> bytes:
    """One server-sent event; `data` is on one line."""
    head = b"" if event is None else b"event: " + event.encode() + b"\n"
    return head + b"data: " + data + b"\n\n"


@dataclass(slots=True)
class Answer:
    """A whole event stream, for a reply that is not streamed."""

    started: Started = field(default_factory=lambda: Started(0, 0))
    finished: Finished = field(default_factory=lambda: Finished("stop", 0))
    text: str = ""


class StreamWriter(Protocol):
    """Writes one event stream in one wire format."""

    def started(self, event: Started) -> bytes: ...

    def text(self, event: TextDelta) -> bytes: ...

    def finished(self, event: Finished) -> bytes:
        """Everything up to, but without, what `end` writes."""
        ...

    def end(self) -> bytes:
        """The terminal event."""
        ...

    def failed(self, error: ApiError) -> bytes:
        """The last words of a stream that breaks off."""
        ...

    def ping(self) -> bytes:
        """A sign of life that clients ignore."""
        ...


class WireFormat(Protocol):
    """One API's chat endpoint."""

    def read(self, body: bytes) -> ChatRequest:
        """Check a request.

        Raises:
            ApiError: What is wrong with it.
        """
        ...

    def reply(self, answer: Answer, request: ChatRequest, request_id: str) -> bytes: ...

    def writer(self, request: ChatRequest, request_id: str) -> StreamWriter: ...
