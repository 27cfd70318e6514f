"""How long a call may take where the bytes alone do not tell: until content, between, in total.

The connection bounds every wait by the deadline that stands in the attempt's timeline; this
decides which one stands there. Pings and comments keep a connection alive, not a deadline.
"""

from __future__ import annotations

from .._call import Attempt, Call, Deadline
from .._errors import ExchangeError
from ..net.failures import late, stage_of
from ..net.options import REAL

__all__ = ["Patience"]


class Patience:
    """The deadlines of one attempt.

    Time that the reader takes between two reads is no silence of the server's; it does count
    in total. All of it is real time, as that of connections is.

    Args:
        now: The time of the client's clock, by which the call has begun.
    """

    __slots__ = ("_attempt", "_call", "_has_content", "_left", "_since", "_total")

    def __init__(self, call: Call, attempt: Attempt, now: float) -> None:
        self._call, self._attempt = call, attempt
        self._since = REAL()
        self._total: Deadline | None = None
        limit = call.timeout.total
        if limit is not None:
            self._total = Deadline(self._since + call.trace.started + limit - now, "total", limit)
        self._has_content = False
        # Seconds of silence that are left; `None` where no event is awaited.
        self._left = call.timeout.first_event if call.is_stream and call.adapter else None

    def head(self, *, is_stream: bool) -> None:
        """The reply's head is here; whether events follow."""
        if not is_stream:
            self._left = None
        elif self._left is not None:
            self._left -= REAL() - self._since

    def begin(self) -> None:
        """A wait begins.

        Raises:
            ExchangeError: The time for the whole call is over.
        """
        now = self._since = REAL()
        silence = self._silence()
        total = self._total
        deadline = silence if total is None or (silence and silence.at < total.at) else total
        self._attempt.timeline.deadline = deadline
        if total is not None and total.at <= now:
            raise self._late(total)

    def came(self, *, content: bool, whole: bool) -> None:
        """Something came.

        Args:
            content: There was an event with content in it.
            whole: Nothing more is awaited.

        Raises:
            ExchangeError: It was too late, though the connection was never silent.
        """
        now = REAL()
        if whole:
            self._left = self._total = None
        elif content:
            self._has_content, self._left = True, self._call.timeout.idle
        elif self._left is not None:
            silence = self._silence()
            self._left -= now - self._since
            if silence is not None and silence.at <= now:
                raise self._late(silence)
        if self._total is not None and self._total.at <= now:
            raise self._late(self._total)

    def _silence(self) -> Deadline | None:
        if self._left is None:
            return None
        at, limits = self._since + self._left, self._call.timeout
        if self._has_content:
            return Deadline(at, "idle", limits.idle or 0.0)
        return Deadline(at, "first_event", limits.first_event or 0.0)

    def _late(self, deadline: Deadline) -> ExchangeError:
        attempt = self._attempt
        begun = attempt.status is not None
        error = ExchangeError(
            "",
            kind="read_timeout",
            sent="all" if begun else "nothing",
            origin=str(self._call.origin),
            reused=attempt.timeline.reused,
        )
        return late(error, deadline, stage=stage_of(begun))
