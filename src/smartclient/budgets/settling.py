"""Booking what calls came to, once for each, also of those whose reader is gone."""

from __future__ import annotations

import os
from _thread import start_new_thread
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from math import inf

from msgspec import Struct

from .. import _observers
from .._call import Trace
from .._clock import Clock
from .._flow import Flow, ask
from ..stores import Account, Amount, Balance, Booking, Settle, Store, StoreError
from .counters import Counter
from .plan import Part
from .state import left_of

__all__ = ["Hold", "Settling", "nothing"]


_SILENT, _REST = 0.1, 1.0
"""Seconds after which a failure was slow, and for which the store is not asked then."""


class Hold(Struct, frozen=True, gc=False):
    """What one call holds, as much in each account.

    Attributes:
        pid: The process that made it: a forked child does not settle for its parent.
        is_quick: No store has to be waited for.
    """

    id: str
    pid: int
    amount: Amount
    parts: tuple[Part, ...]
    is_quick: bool = True


class _Untold:
    """Settlements that slow stores are still to be told.

    Whoever lets go of it with some left, such as a client that is collected with the bodies
    that were left unread, has them told by a thread: they would hold their room for ever.
    """

    __slots__ = ("pid", "settlements")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.settlements: list[tuple[Part, Settle]] = []

    def __del__(self) -> None:
        # Anywhere: nothing may be waited for, and no lock of Python taken.
        if self.settlements and self.pid == os.getpid():
            with suppress(RuntimeError):  # the interpreter ends: what is left was told at exit
                start_new_thread(_tell_all, (self.settlements,))


class Settling:
    """Settles holds.

    A store that is quick is told at once, by a plain call that never waits, so that a hold of
    a call that is cancelled, or of a body that is dropped, blocks nobody. What a store cannot
    be told now, it keeps itself.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pid, self._prefix = 0, ""
        self._numbers = count(1)
        self._failing: set[int] = set()
        self._silent_until: dict[int, float] = {}

    def new_id(self) -> str:
        """A name that no other reservation has, in whatever process."""
        pid = os.getpid()
        if pid != self._pid:  # a forked child counts on under the same numbers
            # The prefix first: a thread that sees the new process has its prefix too.
            self._prefix = os.urandom(8).hex()
            self._pid = pid
        return f"{self._prefix}{next(self._numbers)}"

    def hold(
        self, id: str, amount: Amount, parts: tuple[Part, ...], *, is_quick: bool = True
    ) -> Hold:
        """What is held in `parts` under one name."""
        return Hold(id, self._pid, amount, parts, is_quick)

    def settle(self, hold: Hold, spent: Amount, trace: Trace | None = None) -> Flow[None]:
        """Book `spent`; what is left to do, such as telling a slow store, is the flow.

        Args:
            trace: Is told what is left of each budget.
        """
        if hold.pid != os.getpid():
            return nothing()
        at, amount = self._clock.now(), hold.amount
        left: dict[str, dict[str, float]] = {}
        slow: _Untold | None = None
        due: list[tuple[Counter, Account, Balance]] = []
        for part in hold.parts:
            store = part.store
            bookings = tuple([Booking(account, amount, spent) for account in part.accounts])
            operation = Settle(hold.id, bookings, at)
            if not store.is_quick:
                slow = slow or _Untold(hold.pid)
                slow.settlements.append((part, operation))
                continue
            try:
                balances = store.do(operation)
            except StoreError as error:
                self.failed(store, error)
                continue
            if trace is not None:
                _note(part, balances, left, due)
        if trace is not None:
            trace.budget_left = left
        if slow is None and not due:
            return nothing()
        return self._rest(slow, left if trace is not None else None, due)

    def _rest(
        self,
        slow: _Untold | None,
        left: dict[str, dict[str, float]] | None,
        due: list[tuple[Counter, Account, Balance]],
    ) -> Flow[None]:
        # A forked child has its parent's flows, and leaves them to it.
        while slow is not None and slow.settlements and slow.pid == os.getpid():
            part, operation = slow.settlements.pop(0)
            try:
                balances: Sequence[Balance] = yield from ask(part.store, operation)
            except StoreError as error:
                self.failed(part.store, error)
                continue
            self.answered(part.store)
            if left is not None:
                _note(part, balances, left, due)
        for counter, account, balance in due:
            counter.warn(account, balance)

    def is_silent(self, store: Store) -> bool:
        """Whether it kept its caller waiting for nothing, a moment ago."""
        return self._clock.monotonic() < self._silent_until.get(id(store), -inf)

    def failed(self, store: Store, error: StoreError, *, since: float | None = None) -> None:
        """Warn, once until it answers again, that a store cannot be reached.

        Args:
            since: When it was asked; one that kept its caller waiting is left alone for a while.
        """
        now = self._clock.monotonic()
        if since is not None and now - since >= _SILENT:
            self._silent_until[id(store)] = now + _REST
        if id(store) in self._failing:
            return
        self._failing.add(id(store))
        _observers.warned("the store of a budget cannot be reached: %s", error)

    def answered(self, store: Store) -> None:
        """Take in that it can be reached."""
        if self._failing:
            self._failing.discard(id(store))
            self._silent_until.pop(id(store), None)


def _note(
    part: Part,
    balances: Sequence[Balance],
    left: dict[str, dict[str, float]],
    due: list[tuple[Counter, Account, Balance]],
) -> None:
    """Note what is left of each budget, by its name, and who may have to warn."""
    for counter, account, balance in zip(part.counters, part.accounts, balances, strict=True):
        name = counter.budget.name
        if name in left:  # of another account: one of the same is there once
            name = f"{name} {len(left) + 1}"
        left[name] = left_of(account, balance)
        if counter.is_due(balance):
            due.append((counter, account, balance))


def _tell_all(settlements: Sequence[tuple[Part, Settle]]) -> None:
    for part, operation in settlements:
        try:
            part.store.do(operation)
        except StoreError as error:
            _observers.warned("the store of a budget cannot be reached: %s", error)


def nothing() -> Flow[None]:
    """There is nothing left to do."""
    yield from ()
