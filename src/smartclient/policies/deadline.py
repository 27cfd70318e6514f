"""Let no call go on after the deadline of its scope."""

from __future__ import annotations

from time import monotonic

from msgspec.structs import replace

from .._call import Call, Reply
from .._clock import Clock
from .._errors import ExchangeError
from .._flow import Flow, Next

__all__ = ["Deadlines"]


class Deadlines:
    """Bound the whole time of a call by what the deadline of its scope leaves of it.

    A deadline is real time, as that of connections is, whatever the client's clock says; the
    seconds that it leaves then pass on that clock too, where a wait between attempts does.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    def flow(self, call: Call, call_next: Next) -> Flow[Reply]:
        deadline = None if call.scope is None else call.scope.deadline
        if deadline is None:
            return (yield from call_next(call))
        left = deadline - monotonic()
        if left <= 0:
            raise ExchangeError(
                f"not sent: the deadline of its smartclient.scope passed {-left:.1f} s before the "
                "call began; give the scope more time, or do less in it",
                kind="total_timeout",
                origin=str(call.origin),
            )
        total = self._clock.monotonic() - call.trace.started + left
        if call.timeout.total is not None and call.timeout.total <= total:
            return (yield from call_next(call))
        bounded = replace(call, timeout=replace(call.timeout, total=total))
        return (yield from call_next(bounded))
