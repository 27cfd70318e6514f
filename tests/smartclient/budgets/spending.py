"""Calls under budgets, without I/O: what is held for them, and what they come to."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from smartclient import catalog
from smartclient._call import Origin, Trace
from smartclient._errors import ExchangeError
from smartclient._flow import Ask, Exchange, Outcome, Park, Sleep, exchange
from smartclient._scope import scope
from smartclient.budgets import Budget
from smartclient.policies.budget import Budgets
from smartclient.stores import MemoryStore, Settle, StoreError
from smartclient.testing import ManualClock, a_call, a_reply
from smartclient.wire import Delta, Usage

__all__ = [
    "MINE",
    "NOON",
    "FailingStore",
    "Spending",
    "a_budgeted_call",
    "a_lost_connection",
    "in_scope",
    "kinds",
    "spent",
]

NOON = 1_700_049_600.0
PRICES = {"input": 1, "output": 10}
MINE = catalog.override(
    {"mine": {"prices": PRICES}, "small": {"prices": {"input": 0, "output": 1}}}
)


def a_budgeted_call(*, scope_of: Any = None, path: str = "/v1/messages", **payload: Any) -> Any:
    given = {"model": "mine", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
    call = a_call(path=path, payload=given | payload)
    return msgspec.structs.replace(call, trace=Trace(started=NOON), scope=scope_of)


def a_lost_connection(sent: Any = "nothing") -> ExchangeError:
    return ExchangeError("it broke", kind="closed", sent=sent)


def kinds(effects: Any) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def spent(budget: Budget, tag: str | None = None) -> tuple[float, float]:
    """Tokens that are spent and held."""
    state = budget.state(tag, at=NOON)
    return state.spent["tokens"], state.held["tokens"]


class FailingStore:
    """A store that is asked by awaiting, and that fails while it is told to.

    As every store does, it keeps a settlement that it could not take.
    """

    is_quick = False

    def __init__(self) -> None:
        self.kept, self.asked, self.is_down = MemoryStore(), [], False
        self.owed: list[Settle] = []

    def do(self, operation: Any) -> Any:
        self.asked.append(type(operation).__name__)
        if self.is_down:
            self.owed += [operation] if isinstance(operation, Settle) else []
            raise StoreError("no route to it")
        return self.kept.do(operation)

    async def do_async(self, operation: Any) -> Any:
        return self.do(operation)

    def recover(self) -> None:
        self.is_down = False
        while self.owed:
            self.kept.do(self.owed.pop())

    def changed(self) -> Any:
        return self.kept.changed()


class Spending:
    """A policy, and the driver that it is played."""

    def __init__(self, *budgets: Budget) -> None:
        self.clock, self.leftovers = ManualClock(NOON), deque()
        self.policy = Budgets(
            clock=self.clock, leftovers=self.leftovers, budgets=budgets, catalog=MINE
        )
        self.asked: list[Any] = []

    def flow(self, call: Any) -> Any:
        return self.policy.flow(call, exchange)

    def perform(self, effect: Any) -> Any:
        """What a driver answers with, as far as it is about stores and time."""
        self.asked.append(effect)
        match effect:
            case Ask(store, operation):
                return store.do(operation)
            case Sleep(seconds):
                return self.clock.sleep(seconds)
            case Park(latch, _):
                return latch.is_set
            case _:
                raise AssertionError(f"not expected: {effect}")

    def run(self, flow: Any, answer: Any = None) -> Any:
        """Run `flow`; `answer` is what comes of its exchange: a status, or an error."""
        try:
            effect = next(flow)
            while True:
                if not isinstance(effect, Exchange):
                    effect = self.send(flow, effect)
                    continue
                self.asked.append(effect)
                attempt = effect.call.trace.begin(Origin("http", "a", 80), at=0.0)
                if isinstance(answer, ExchangeError):
                    attempt.error, attempt.maybe_processed = answer.kind, answer.maybe_processed
                if isinstance(answer, BaseException):
                    effect = flow.throw(answer)
                    continue
                attempt.status = answer or 200
                effect = flow.send(a_reply(attempt.status, call=effect.call))
        except StopIteration as stop:
            return stop.value

    def send(self, flow: Any, effect: Any) -> Any:
        try:
            done = self.perform(effect)
        except StoreError as error:
            return flow.throw(error)
        return flow.send(done)

    def begin(self, call: Any = None, status: int = 200) -> Any:
        """Send a call; its reply, whose body is unread."""
        return self.run(self.flow(call or a_budgeted_call()), status)

    def end(self, reply: Any, *, used: int | None = None, kind: Any = "complete") -> None:
        """End the body of `reply`, which told of so many tokens of input and none of output."""
        (tap,) = reply.taps
        if used is not None:
            reply.call.trace.attempts[-1].usage = Usage(uncached=used, output=0)
            tap.feed(Delta(has_tokens=True, is_terminal=True), 0.0)
        self.run(tap.after(Outcome(kind, 0.0)))

    def call(self, *, used: int = 5, **payload: Any) -> Any:
        """A whole call that used so many tokens; its record."""
        reply = self.begin(a_budgeted_call(**payload))
        self.end(reply, used=used)
        return reply.call.trace


def in_scope(**given: Any) -> Any:
    with scope(**given) as inner:
        return inner
