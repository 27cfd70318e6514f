"""Hold what a call may use before it is sent, and book what it came to when it is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from .. import _observers
from .._call import Call, Reply
from .._clock import Clock
from .._flow import Flow, Next, Outcome
from ..budgets import Budget
from ..budgets.bill import Heard, bill
from ..budgets.plan import Plans
from ..budgets.quote import Quote, Quotes, is_free
from ..budgets.reserving import Reserving
from ..budgets.settling import Hold, Settling, nothing
from ..catalog.lookup import CatalogLike
from ..tokens import Calibrator
from ..wire import Delta

__all__ = ["Budgets"]


class Budgets:
    """Let a call take of every budget around it: the client's, and those of its scopes.

    Every attempt of a call is booked in one settlement, and every call that was let through
    is settled once: when its body has ended, or when it failed without one.

    Args:
        budgets: The client's own, for all of its calls.
        leftovers: What is to be done when nothing can be waited for now.
        calibrator: What earlier calls taught about counts of tokens.
        catalog: Where prices come from; `None`: what this version knows.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        leftovers: deque[Flow[None]],
        budgets: Sequence[Budget] = (),
        calibrator: Calibrator | None = None,
        catalog: CatalogLike | None = None,
    ) -> None:
        self._plans, self._leftovers = Plans(budgets), leftovers
        self._settling = Settling(clock)
        self._quotes = Quotes(calibrator=calibrator, catalog=catalog)
        self._reserving = Reserving(
            clock=clock, quotes=self._quotes, settling=self._settling, leftovers=leftovers
        )
        self._has_warned = False
        self._out: dict[str, tuple[Call, Quote, Hold, Heard | None]] = {}

    def flow(self, call: Call, call_next: Next) -> Flow[Reply]:
        plan = self._plans.of(call.scope)
        if not plan.counters or is_free(call):
            return (yield from call_next(call))
        if call.adapter is None and (plan.is_priced or plan.has_tokens):
            self._warn_of(call)
        quote = self._reserving.quote(call, plan)
        hold = self._reserving.at_once(plan, quote)
        if hold is None:
            call, quote, hold = yield from self._reserving.reserve(call, plan, quote)
        if not hold.is_quick:
            self._out[hold.id] = (call, quote, hold, None)
        failure: Exception | None = None
        try:
            reply = yield from call_next(call)
        except Exception as error:
            failure = error
        except BaseException:  # cancelled, or dropped: nothing can be waited for now
            self._leftovers.append(self._settled(call, quote, hold, None))
            raise
        else:
            watch = _Watch(self, call, quote, hold)
            if not hold.is_quick:
                self._out[hold.id] = (call, quote, hold, watch)
            reply.taps.append(watch)
            return reply
        try:
            yield from self._settled(call, quote, hold, None)
            raise failure
        finally:
            failure = None  # its traceback has this frame

    def unsettled(self) -> list[Flow[None]]:
        """Settle, at exit, what calls hold in slow stores that nobody will end any more."""
        return [self._settled(*one) for one in list(self._out.values())]

    def _settled(self, call: Call, quote: Quote, hold: Hold, heard: Heard | None) -> Flow[None]:
        if not hold.is_quick and self._out.pop(hold.id, None) is None:
            return nothing()  # at exit, before its body was dropped
        spent = bill(call.trace.attempts, quote, heard, self._quotes.tariff_of)
        return self._settling.settle(hold, spent, call.trace)

    def _warn_of(self, call: Call) -> None:
        if not self._has_warned:
            self._has_warned = True
            _observers.warned(
                "what a call to %s uses is not known: budgets count it as a request, without "
                "tokens or dollars",
                call.target.partition("?")[0],
            )


class _Watch(Heard):
    """Hears how the body fares, and settles when it has ended."""

    __slots__ = ("_call", "_hold", "_policy", "_quote")

    def __init__(self, policy: Budgets, call: Call, quote: Quote, hold: Hold) -> None:
        self.has_content = self.has_failed = False
        self._policy, self._call, self._quote, self._hold = policy, call, quote, hold

    def feed(self, delta: Delta, at: float) -> None:
        self.note(delta)

    def comment(self, text: str) -> None:
        """No comment tells of that."""

    def after(self, outcome: Outcome) -> Flow[None]:
        # Settled before its flow begins, which may be much later: a quick store is told now.
        return self._policy._settled(self._call, self._quote, self._hold, self)
