"""What happened, in numbers counted at the server, where no client can be wrong about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

from .hooks import Connection, How
from .request import Received

__all__ = ["Counters", "Tally"]


@dataclass(frozen=True, slots=True)
class Counters:
    """Counts since the start, or since the last reset.

    Attributes:
        connections_opened: Accepted.
        connections_reused: Those that carried more than one request.
        connections_open: Open now.
        closed_by: How many were closed by whom: `client`, `client reset`, `server`, …
        streams_open: Replies under way now.
        streams_max: The most that were under way at once.
        requests: Whole requests.
        replies: How many ended how: `complete`, `cut`, `abandoned`, `stopped`.
        resets_seen: Connections and HTTP/2 streams that the client reset.
        closes_before_end: Replies that the client broke off, by any means.
        closes_after_end: Connections that the client closed while no reply was under way.
        bytes_received: Of requests' bodies.
        bytes_sent: On the wire, framing included.
        attempts: Tries of each call by its number, of the newest 10,000 calls.
        gaps: Seconds between the tries of a call, for calls with more than one.
    """

    connections_opened: int
    connections_reused: int
    connections_open: int
    closed_by: dict[str, int]
    streams_open: int
    streams_max: int
    requests: int
    replies: dict[str, int]
    resets_seen: int
    closes_before_end: int
    closes_after_end: int
    bytes_received: int
    bytes_sent: int
    attempts: dict[int, int]
    gaps: dict[int, tuple[float, ...]]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


class Tally:
    """Counts; written on the server's thread only."""

    def __init__(self) -> None:
        self.streams_open = 0
        self._on: dict[int, int] = {}
        self._busy: Counter[int] = Counter()
        self.reset()

    def reset(self) -> None:
        """Begin from zero; what is open now stays open."""
        self._opened = 0
        self._reused = 0
        self._closed_by: Counter[str] = Counter()
        self._replies: Counter[str] = Counter()
        self._requests = 0
        self._resets = 0
        self._closes_after_end = 0
        self._bytes_received = 0
        self._bytes_sent = 0
        self._streams_max = self.streams_open

    def opened(self, connection: Connection) -> None:
        self._opened += 1
        self._on[connection.number] = 0

    def closed(self, connection: Connection, reason: str) -> None:
        self._on.pop(connection.number, None)
        self._closed_by[reason] += 1
        was_idle = self._busy.pop(connection.number, 0) == 0
        if reason == "client reset":
            self._resets += 1
        if reason.startswith("client") and was_idle:
            self._closes_after_end += 1

    def received(self, received: Received) -> None:
        self._requests += 1
        self._bytes_received += len(received.body)
        carried = self._on.get(received.connection, 0) + 1
        self._on[received.connection] = carried
        self._reused += carried == 2
        self._busy[received.connection] += 1
        self.streams_open += 1
        self._streams_max = max(self._streams_max, self.streams_open)

    def ended(self, received: Received, how: How, sent_bytes: int) -> None:
        self.streams_open -= 1
        self._bytes_sent += sent_bytes
        self._replies[how] += 1
        # Kept for an abandoned one until its connection is seen to be closed.
        if how != "abandoned" or received.stream_id is not None:
            self._busy[received.connection] -= 1
        if how == "abandoned" and received.stream_id is not None:
            self._resets += 1

    def counters(
        self,
        attempts: dict[int, int],
        gaps: dict[int, tuple[float, ...]],
        *,
        bytes_in_flight: int = 0,
    ) -> Counters:
        """The counts now, with those that the journal keeps."""
        return Counters(
            connections_opened=self._opened,
            connections_reused=self._reused,
            connections_open=len(self._on),
            closed_by=dict(self._closed_by),
            streams_open=self.streams_open,
            streams_max=self._streams_max,
            requests=self._requests,
            replies=dict(self._replies),
            resets_seen=self._resets,
            closes_before_end=self._replies["abandoned"],
            closes_after_end=self._closes_after_end,
            bytes_received=self._bytes_received,
            bytes_sent=self._bytes_sent + bytes_in_flight,
            attempts=attempts,
            gaps=gaps,
        )
