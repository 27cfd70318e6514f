"""Paths through budgets: what one adds to a call, apart from counting its tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress

from smartclient._call import Origin
from smartclient._flow import Outcome, exchange
from smartclient.budgets import Budget
from smartclient.policies.budget import Budgets
from smartclient.stores import Account, Amount, Booking, MemoryStore, Reserve, Settle
from smartclient.testing import ManualClock, a_call, a_reply
from smartclient.wire import Delta, Usage

__all__ = ["call_under_one", "reserve_and_settle"]

_MOST = 2**53
_END = Delta(has_tokens=True, is_terminal=True)


def reserve_and_settle() -> Callable[[], object]:
    """In the store in memory alone."""
    store, account = MemoryStore(), Account("app", tokens=_MOST, expires=1e12)
    held, used = Amount(requests=1, tokens=500, nanodollars=7_000), Amount(requests=1, tokens=90)
    bookings = (Booking(account, held, used),)
    number = 0

    def step() -> None:
        nonlocal number
        number += 1
        assert store.do(Reserve((account,), held, 1.0)).short is None
        assert len(store.do(Settle(str(number), bookings, 1.0))) == 1

    return step


def call_under_one() -> Callable[[], object]:
    """Held, priced, booked and told: all but the count of its input, which is an empty one."""
    payload = {"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": []}
    call = a_call(payload=payload)
    attempt = call.trace.begin(Origin("http", "127.0.0.1", 80), at=0.0)
    attempt.status, attempt.usage = 200, Usage(uncached=90, output=9)
    reply, outcome = a_reply(call=call), Outcome("complete", 0.0)
    budget = Budget(dollars=1_000_000, tokens=_MOST, per="day")
    policy = Budgets(clock=ManualClock(), leftovers=deque(), budgets=[budget])

    def step() -> None:
        flow = policy.flow(call, exchange)
        next(flow)
        with suppress(StopIteration):
            flow.send(reply)
        tap = reply.taps.pop()
        tap.feed(_END, 0.0)
        assert not list(tap.after(outcome))

    return step
