"""Taking what a call may use from every budget around it, or from none."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from .. import _observers
from .._call import Call
from .._clock import Clock
from .._errors import BudgetExceededError
from .._flow import Flow, ask
from .._latch import Latch
from ..stores import Account, Amount, Balance, Reserve, Reserved, Store, StoreError
from ..stores.operations import Meter
from .bill import NOTHING
from .budget import Downgrade
from .counters import Counter
from .downgrade import cheaper, shorter
from .plan import Part, Plan
from .quote import A_REQUEST, Quote, Quotes
from .refusal import exceeded, not_counted, unpriced
from .settling import Hold, Settling
from .waiting import Wait

__all__ = ["Reserving"]

_MOST_DOWNGRADES = 4  # others may take the room that an edit was made for


class _Short(Struct, frozen=True):
    """Where there was no room, and how all accounts of that store stand."""

    store: Store
    counter: Counter
    account: Account
    balance: Balance
    meter: Meter
    places: tuple[tuple[Account, Balance], ...]


class Reserving:
    """Reserves for the calls of one client.

    Args:
        leftovers: What is to be done when nothing can be waited for now.
    """

    def __init__(
        self, *, clock: Clock, quotes: Quotes, settling: Settling, leftovers: deque[Flow[None]]
    ) -> None:
        self._clock, self._quotes, self._settling = clock, quotes, settling
        self._leftovers = leftovers

    def at_once(self, plan: Plan, quote: Quote) -> Hold | None:
        """Hold it by plain calls, where every store is quick and there is room for all.

        `None`: `reserve` has to see to it.
        """
        if not plan.is_quick:
            return None
        for counter in plan.counters:
            if counter.line.tickets:
                return None
        now, amount, id = self._clock.now(), quote.amount, self._settling.new_id()
        parts = plan.parts_at(now)
        for number, part in enumerate(parts):
            if not _has_room(part.store, Reserve(part.accounts, amount, now, id)):
                if number:  # all quick, so it is done when this returns
                    hold = self._settling.hold(id, amount, parts[:number])
                    self._settling.settle(hold, NOTHING)
                return None
        return self._settling.hold(id, amount, parts)

    def reserve(self, call: Call, plan: Plan, quote: Quote) -> Flow[tuple[Call, Quote, Hold]]:
        """Hold what `call` may use; the call to send, which may be a downgraded one.

        Raises:
            RefusedError: It does not fit, not in time, or nobody can tell.
        """
        wait, num_downgrades = Wait(call, self._clock), 0
        try:
            while True:
                has_time = yield from self._turn(plan.counters, wait)
                changed = wait.changed
                found = yield from self._take(plan, quote.amount)
                if isinstance(found, Hold):
                    return call, quote, found
                on_limit = found.counter.budget.on_limit
                if isinstance(on_limit, Downgrade) and num_downgrades < _MOST_DOWNGRADES:
                    num_downgrades += 1
                    edited = self._downgraded(call, quote, found, on_limit)
                    if edited is not None:
                        call, quote = edited
                        continue
                may_wait = on_limit == "wait" and has_time
                if not may_wait or not (yield from self._wait(found, quote.amount, wait, changed)):
                    raise self._refusal(found, quote.amount, wait)
        finally:
            wait.leave()

    def _turn(self, counters: Sequence[Counter], wait: Wait) -> Flow[bool]:
        """Stand behind whoever waits already; `False`: there was no time for that."""
        if not wait.has_stood:
            for counter in counters:
                if counter.line.is_waited_in and counter.budget.on_limit == "wait":
                    wait.stand(counter)
                    break
            else:
                return True
        return (yield from wait.for_turn())

    def _wait(self, short: _Short, amount: Amount, wait: Wait, changed: Latch | None) -> Flow[bool]:
        """Wait until there may be room; `False`: there will be none in time."""
        most = getattr(short.account, short.meter)
        if getattr(amount, short.meter) > most:
            return False
        if changed is None or not wait.stands_for(short.counter):
            wait.stand(short.counter)  # then asks again, with a latch that misses nothing
            return True
        state = short.counter.state(short.account, short.balance)
        return (yield from wait.for_room(short.store, state, short.balance, short.meter, changed))

    def quote(self, call: Call, plan: Plan) -> Quote:
        """What `call` may use, in the meters that are limited.

        Raises:
            RefusedError: What it costs is unknown, and a budget does not let that pass.
        """
        if call.adapter is None or not (plan.is_priced or plan.has_tokens):
            return A_REQUEST
        quote = self._quotes.of(call, is_priced=plan.is_priced)
        if plan.is_priced and quote.tariff is None:
            for counter in plan.counters:
                budget = counter.budget
                if budget.dollars is not None and budget.unknown_price == "refuse":
                    raise unpriced(budget, call.model)
        return quote

    def _refusal(self, short: _Short, amount: Amount, wait: Wait) -> BudgetExceededError:
        return exceeded(
            short.counter,
            short.account,
            short.balance,
            short.meter,
            amount,
            now=self._clock.now(),
            waited=wait.seconds if wait.has_stood else 0.0,
        )

    def _downgraded(
        self, call: Call, quote: Quote, short: _Short, downgrade: Downgrade
    ) -> tuple[Call, Quote] | None:
        edited = shorter(call, quote, self._quotes, downgrade, short.places)
        if edited is None:
            is_priced = quote.tariff is not None
            edited = cheaper(call, self._quotes, downgrade, is_priced=is_priced)
        if edited is None:
            return None
        if quote.tariff is not None and edited[1].tariff is None:
            return None  # of an unknown price is not known to be cheaper
        changes = ", ".join(
            f"{name} {(call.payload or {}).get(name)!r} -> {value!r}"
            for name, value in (edited[0].payload or {}).items()
            if (call.payload or {}).get(name) != value
        )
        trace, name = call.trace, short.counter.budget.name
        before = f"{trace.downgraded}; " if trace.downgraded else ""
        trace.downgraded = f"{before}budget {name!r}: {changes}"
        _observers.warned("budget %r had no room for all of a call: %s", name, changes)
        return edited

    def _take(self, plan: Plan, amount: Amount) -> Flow[Hold | _Short]:
        """Hold `amount` in every store, or in none."""
        now, id = self._clock.now(), self._settling.new_id()
        taken: list[Part] = []
        for part in plan.parts_at(now):
            store, group, accounts = part.store, part.counters, part.accounts
            closed = [one.budget for one in group if not one.budget.is_open_on_failure]
            if not closed and self._settling.is_silent(store):
                continue  # else every call would wait for its time-out
            asked_at = self._clock.monotonic()
            try:
                reserved: Reserved = yield from ask(store, Reserve(accounts, amount, now, id))
            except StoreError as error:
                self._settling.failed(store, error, since=asked_at)
                if not closed:
                    continue  # not counted there
                yield from self._given_back(id, amount, taken)
                raise not_counted(closed[0], error) from error
            except BaseException:  # nothing can be waited for now
                self._leftovers.append(self._given_back(id, amount, taken))
                raise
            self._settling.answered(store)
            if reserved.short is not None:
                yield from self._given_back(id, amount, taken)
                index, meter = reserved.short
                places = tuple(zip(accounts, reserved.balances, strict=True))
                return _Short(store, group[index], *places[index], meter, places)
            taken.append(part)
        return self._settling.hold(id, amount, tuple(taken), is_quick=plan.is_quick)

    def _given_back(self, id: str, amount: Amount, taken: list[Part]) -> Flow[None]:
        return self._settling.settle(self._settling.hold(id, amount, tuple(taken)), NOTHING)


def _has_room(store: Store, reserve: Reserve) -> bool:
    """Whether a quick store holds it, which it does in the same step."""
    try:
        reserved: Reserved = store.do(reserve)
    except StoreError:  # told again, and then seen to
        return False
    return reserved.short is None
