"""One HTTP/2 stream of the scripted server: a request as it comes, and how far its reply is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from .ops import Head
from .request import Received

__all__ = ["Stream"]

_NO_BODY = (204, 304)


@dataclass(slots=True, eq=False)
class Stream:
    """A request, and its reply.

    Attributes:
        received: The request when it is whole.
        task: Plays the reply, unless it could leave at once.
        credit: Set when the client may have granted more window.
        has_body: Whether the reply may have one.
        has_ended: Whether END_STREAM was sent.
        is_reset: Whether the script has sent RST_STREAM.
    """

    number: int
    method: str
    target: str
    headers: list[tuple[str, str]]
    received: Received | None = None
    task: asyncio.Task[None] | None = None
    credit: asyncio.Event = field(default_factory=asyncio.Event)
    has_body: bool = True
    has_ended: bool = False
    is_reset: bool = False
    _body: list[bytes] = field(default_factory=list)
    _num_body_bytes: int = 0

    def collect(self, data: bytes, most: int) -> bool:
        """Keep a part of the request's body; whether it has at most `most` bytes with it."""
        self._num_body_bytes += len(data)
        self._body.append(data)
        return self._num_body_bytes <= most

    def take_body(self) -> bytes:
        """The request's body, once."""
        body = b"".join(self._body)
        self._body.clear()
        return body

    def began(self, head: Head) -> None:
        """The reply's head was sent."""
        self.has_body = self.method != "HEAD" and head.status not in _NO_BODY
