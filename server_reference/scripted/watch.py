"""Sees all that a scripted server does: for its journal, its counters and the calls it watches."""

from __future__ import annotations

from .clock import Clock
from .counters import Counters, Tally
from .hooks import Connection, How, Observer
from .journal import Journal
from .ops import Op
from .request import Received
from .scope import Scopes

__all__ = ["Watch"]


class Watch(Observer):
    """Told by the server, on its thread; read from any.

    Args:
        clock: The server's.
        max_entries: Of the journal.
    """

    def __init__(self, clock: Clock, *, max_entries: int = 10_000) -> None:
        self.clock = clock
        self.journal = Journal(clock, max_entries=max_entries)
        self.scopes = Scopes()
        self._tally = Tally()

    def counters(self) -> Counters:
        """The counts now."""
        attempts, gaps = self.journal.attempts()
        return self._tally.counters(attempts, gaps, bytes_in_flight=self.journal.bytes_in_flight)

    def reset(self) -> None:
        """Forget what was seen; what is open or under way stays known."""
        self.journal.reset()
        self.scopes.reset()
        self._tally.reset()

    def connection_opened(self, connection: Connection) -> None:
        self.journal.opened(connection)
        self._tally.opened(connection)

    def connection_closed(self, connection: Connection, reason: str) -> None:
        self.journal.closed(connection, reason)
        self._tally.closed(connection, reason)

    def request(self, received: Received) -> None:
        self.journal.received(received, self.scopes.of(received))
        self._tally.received(received)

    def wrote(self, received: Received, op: Op, num_bytes: int) -> None:
        self.journal.wrote(received, op, num_bytes)

    def ended(self, received: Received, how: How) -> None:
        self._tally.ended(received, how, self.journal.ended(received, how))

    def broke(self, received: Received, error: BaseException) -> None:
        self.journal.broke(received, error)
