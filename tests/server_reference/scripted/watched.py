"""Plays a server to a journal: connections, requests and replies, as a front would tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from server_reference.scripted.clock import ManualClock
from server_reference.scripted.hooks import Connection, How
from server_reference.scripted.ops import Body, End, Head, Op
from server_reference.scripted.request import Received
from server_reference.scripted.watch import Watch

__all__ = ["HELLO", "Played", "stream"]

HELLO = (Head(200, (("content-type", "application/json"),)), Body(b'{"a": 1}'), End())


def stream(*writes: bytes, fields: Sequence[tuple[str, str]] = ()) -> Sequence[Op]:
    """A reply of server-sent events, without its end."""
    return [Head(200, (("content-type", "text/event-stream"), *fields)), *map(Body, writes)]


@dataclass
class Played:
    """A server without sockets."""

    max_entries: int = 10_000
    clock: ManualClock = field(default_factory=lambda: ManualClock(at=100.0))

    def __post_init__(self) -> None:
        self.watch = Watch(self.clock, max_entries=self.max_entries)
        self._connections: dict[int, Connection] = {}
        self._num = 0

    def open(self, number: int = 1, protocol: str = "http/1.1") -> None:
        self._connections[number] = Connection(number, self.clock.now(), protocol=protocol)
        self.watch.connection_opened(self._connections[number])

    def reset_stream(self, received: Received) -> None:
        """The client resets an HTTP/2 stream."""
        self._connections[received.connection].num_resets += 1
        self.watch.ended(received, "abandoned")

    def close(self, number: int = 1, reason: str = "client") -> None:
        self.watch.connection_closed(self._connections.pop(number), reason)

    def ask(self, body: bytes = b"{}", **more: Any) -> Received:
        """A request comes."""
        connection = more.pop("connection", 1)
        if connection not in self._connections:
            self.open(connection)
        self._num += 1
        given = {"method": "POST", "target": "/v1/chat/completions", "headers": ()} | more
        received = Received(
            body=body,
            connection=connection,
            number=self._num,
            received_at=self.clock.now(),
            **given,
        )
        self.watch.request(received)
        return received

    def answer(
        self, received: Received, ops: Sequence[Op] = HELLO, how: How | None = "complete"
    ) -> None:
        for op in ops:
            self.watch.wrote(received, op, len(getattr(op, "data", b"")))
        if how is not None:
            self.watch.ended(received, how)

    def exchange(
        self,
        body: bytes = b"{}",
        ops: Sequence[Op] = HELLO,
        how: How | None = "complete",
        **more: Any,
    ) -> Received:
        received = self.ask(body, **more)
        self.answer(received, ops, how)
        return received
