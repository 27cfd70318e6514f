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


@dataclass(slots=True)
class _Open:
    """An open connection.

    Attributes:
        num_resets: Of its streams, those before the last reset of the counters.
        num_busy: Replies under way on it.
    """

    connection: Connection
    num_requests: int = 0
    num_resets: int = 0
    num_busy: int = 0
    _resets_told: int = 0

    @property
    def unread_resets(self) -> int:
        return self.connection.num_resets - self.num_resets

    def has_new_reset(self) -> bool:
        """Whether the client has reset a stream since this was asked."""
        is_new = self.connection.num_resets > self._resets_told
        self._resets_told += is_new
        return is_new


class Tally:
    """Counts; written on the server's thread only."""

    def __init__(self) -> None:
        self.streams_open = 0
        self._on: dict[int, _Open] = {}
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
        for one in self._on.values():
            one.num_resets = one.connection.num_resets

    def opened(self, connection: Connection) -> None:
        self._opened += 1
        self._on[connection.number] = _Open(connection)

    def closed(self, connection: Connection, reason: str) -> None:
        one = self._on.pop(connection.number)
        self._closed_by[reason] += 1
        self._resets += one.unread_resets + (reason == "client reset")
        if reason.startswith("client") and not one.num_busy:
            self._closes_after_end += 1

    def received(self, received: Received) -> None:
        self._requests += 1
        self._bytes_received += len(received.body)
        one = self._on[received.connection]
        one.num_requests += 1
        one.num_busy += 1
        self._reused += one.num_requests == 2
        self.streams_open += 1
        self._streams_max = max(self._streams_max, self.streams_open)

    def ended(self, received: Received, how: How, sent_bytes: int) -> None:
        self.streams_open -= 1
        self._bytes_sent += sent_bytes
        self._replies[how] += 1
        one = self._on[received.connection]
        # A stream that was abandoned without a reset went with its connection, which is told next.
        if how != "abandoned" or one.has_new_reset():
            one.num_busy -= 1

    def counters(
        self,
        attempts: dict[int, int],
        gaps: dict[int, tuple[float, ...]],
        *,
        bytes_in_flight: int = 0,
    ) -> Counters:
        """The counts now, with those that the journal keeps."""
        open_now = list(self._on.values())
        return Counters(
            connections_opened=self._opened,
            connections_reused=self._reused,
            connections_open=len(open_now),
            closed_by=dict(self._closed_by),
            streams_open=self.streams_open,
            streams_max=self._streams_max,
            requests=self._requests,
            replies=dict(self._replies),
            resets_seen=self._resets + sum(one.unread_resets for one in open_now),
            closes_before_end=self._replies["abandoned"],
            closes_after_end=self._closes_after_end,
            bytes_received=self._bytes_received,
            bytes_sent=self._bytes_sent + bytes_in_flight,
            attempts=attempts,
            gaps=gaps,
        )
