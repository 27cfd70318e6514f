"""One call's wait for room: in a line, until something is let go or the window ends."""

from __future__ import annotations

from math import inf

from .._call import Call
from .._clock import Clock
from .._flow import Flow, park, sleep
from .._latch import Latch
from ..stores import Balance, Store
from ..stores.operations import Meter
from .budget import Budget
from .counters import Counter
from .state import BudgetState

__all__ = ["Wait"]

_POLL = 0.5
"""Seconds after which a store that other processes share is asked again."""


class Wait:
    """How long a call has waited, and where it stands.

    Time is the clock's, or that of the latches that were waited for, whichever is more: a
    clock of a test may stand still.
    """

    def __init__(self, call: Call, clock: Clock) -> None:
        self._call, self._clock = call, clock
        self._started = clock.monotonic()
        self._parked = 0.0
        self._counter: Counter | None = None
        self._ticket: Latch | None = None

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return max(self._parked, self._clock.monotonic() - self._started)

    @property
    def has_stood(self) -> bool:
        """Whether it has a place in some line."""
        return self._counter is not None

    def stands_for(self, counter: Counter) -> bool:
        return self._counter is counter

    def stand(self, counter: Counter) -> None:
        """Go to the end of the line of `counter`."""
        self.leave()
        self._counter, self._ticket = counter, counter.line.join()

    def leave(self) -> None:
        """Give the place up."""
        if self._counter is not None and self._ticket is not None:
            self._counter.line.leave(self._ticket)
        self._counter = self._ticket = None

    @property
    def changed(self) -> Latch | None:
        """Opens when something is let go where it waits."""
        store = None if self._counter is None else self._counter.budget.store
        return None if store is None else store.changed()

    def for_turn(self) -> Flow[bool]:
        """Wait until the line has come to it; `False`: there was no time."""
        counter, ticket = self._counter, self._ticket
        if counter is None or ticket is None or counter.line.is_first(ticket):
            return True
        left = self._left(counter.budget)
        if left <= 0:
            return False
        is_open = yield from self._park(ticket, left)
        return is_open

    def for_room(
        self, store: Store, state: BudgetState, balance: Balance, meter: Meter, changed: Latch
    ) -> Flow[bool]:
        """Wait until there may be room; `False`: there was no time, or there never will be."""
        assert self._counter is not None
        left = self._left(self._counter.budget)
        ends = inf if state.resets_at is None else state.resets_at - self._clock.now()
        if not getattr(balance.held, meter):
            # Nobody will let go of anything: there is room when the window ends, or never.
            if ends > left or ends == inf:
                return False
            yield from sleep(max(0.001, ends))
            return True
        timeout = min(left, max(0.0, ends))
        if timeout <= 0 and left <= 0:
            return False
        if not store.is_quick:
            timeout = min(timeout, _POLL)
        yield from self._park(changed, timeout)
        return True

    def _park(self, latch: Latch, timeout: float) -> Flow[bool]:
        is_open = yield from park(latch, None if timeout == inf else timeout)
        if not is_open:
            self._parked += timeout
        return is_open

    def _left(self, budget: Budget) -> float:
        most = inf if budget.max_wait is None else budget.max_wait - self.seconds
        total = self._call.timeout.total
        if total is not None:
            begun = self._started - self._call.trace.started
            most = min(most, total - begun - self.seconds)
        return most
