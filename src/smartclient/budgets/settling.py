"""Booking what calls came to, once for each, and later where a store cannot take it now."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from itertools import count

from msgspec import Struct

from .. import _observers
from .._call import Trace
from .._clock import Clock
from .._flow import Flow, ask
from ..stores import Account, Amount, Balance, Booking, Settle, Store, StoreError
from .counters import Counter
from .state import left_of

__all__ = ["Hold", "Part", "Settling"]


class Part(Struct, frozen=True, gc=False):
    """What is held in one store."""

    store: Store
    counters: tuple[Counter, ...]
    accounts: tuple[Account, ...]
    amount: Amount


class Hold(Struct, frozen=True, gc=False):
    """What one call holds, in each store.

    Attributes:
        pid: The process that made it: a forked child does not settle for its parent.
    """

    id: str
    pid: int
    parts: tuple[Part, ...]


class Settling:
    """Settles holds, and keeps what could not be delivered.

    A store that is quick is told at once, by a plain call that never waits, so that a hold of
    a call that is cancelled, or of a body that is dropped, blocks nobody.

    Args:
        most_owed: Settlements that are kept while their store cannot be reached.
    """

    def __init__(self, clock: Clock, *, most_owed: int = 10_000) -> None:
        self._clock, self._most_owed = clock, most_owed
        self._pid, self._prefix = 0, ""
        self._numbers = count(1)
        self._owed: deque[tuple[Store, Settle]] = deque()
        self._failing: set[int] = set()

    def new_id(self) -> str:
        """A name that no other reservation has, in whatever process."""
        pid = os.getpid()
        if pid != self._pid:  # a forked child counts on under the same numbers
            self._pid, self._prefix = pid, os.urandom(8).hex()
        return f"{self._prefix}{next(self._numbers)}"

    def hold(self, id: str, parts: list[Part]) -> Hold:
        """What is held in `parts` under one name."""
        return Hold(id, self._pid, tuple(parts))

    def settle(self, hold: Hold, spent: Amount, trace: Trace | None = None) -> Flow[None]:
        """Book `spent`; what is left to do, such as telling a slow store, is the flow.

        Args:
            trace: Is told what is left of each budget.
        """
        if hold.pid != os.getpid():
            return _nothing()
        at = self._clock.now()
        left: dict[str, dict[str, float]] = {}
        slow: list[tuple[Part, Settle]] = []
        due: list[tuple[Counter, Account, Balance]] = []
        for part in hold.parts:
            amount, store = part.amount, part.store
            bookings = tuple([Booking(account, amount, spent) for account in part.accounts])
            operation = Settle(hold.id, bookings, at)
            if not store.is_quick:
                slow.append((part, operation))
                continue
            try:
                balances = store.do(operation)
            except StoreError as error:
                self._keep(store, operation, error)
                continue
            if trace is not None:
                _note(part, balances, left, due)
        if trace is not None:
            trace.budget_left = left
        if not slow and not due:
            return _nothing()
        return self._rest(slow, left if trace is not None else None, due)

    def _rest(
        self,
        slow: list[tuple[Part, Settle]],
        left: dict[str, dict[str, float]] | None,
        due: list[tuple[Counter, Account, Balance]],
    ) -> Flow[None]:
        try:
            while slow:
                part, operation = slow.pop(0)
                balances = yield from self._tell(part.store, operation)
                if balances is not None and left is not None:
                    _note(part, balances, left, due)
        finally:  # of one that was cancelled: the others are owed too
            self._owed.extend((part.store, operation) for part, operation in slow)
        for counter, account, balance in due:
            counter.warn(account, balance)

    def _tell(self, store: Store, operation: Settle) -> Flow[Sequence[Balance] | None]:
        try:
            balances: Sequence[Balance] = yield from ask(store, operation)
        except StoreError as error:
            self._keep(store, operation, error)
            return None
        except BaseException:  # cancelled: it may be told twice, and counts once
            self._owed.append((store, operation))
            raise
        self._failing.discard(id(store))
        return balances

    def deliver(self, only: Store | None = None) -> Flow[bool]:
        """Tell stores what they are owed; whether `only` took all of its own."""
        for _ in range(len(self._owed)):
            try:
                store, operation = self._owed.popleft()
            except IndexError:  # another thread delivers too
                break
            if only is not None and store is not only:
                self._owed.append((store, operation))
                continue
            if (yield from self._tell(store, operation)) is None:
                return False
        return True

    @property
    def is_owing(self) -> bool:
        """Whether there is something to deliver."""
        return bool(self._owed)

    def failed(self, store: Store, error: StoreError) -> None:
        """Warn, once until it answers again, that a store cannot be reached."""
        if id(store) in self._failing:
            return
        self._failing.add(id(store))
        _observers.warned("the store of a budget cannot be reached: %s", error)

    def answered(self, store: Store) -> None:
        """Take in that it can be reached."""
        if self._failing:
            self._failing.discard(id(store))

    def _keep(self, store: Store, operation: Settle, error: StoreError) -> None:
        self.failed(store, error)
        if len(self._owed) >= self._most_owed:
            self._owed.popleft()
            _observers.warned(
                "more than %d settlements wait for the store of a budget: the oldest is lost, and "
                "what its call held stays held until its window ends",
                self._most_owed,
            )
        self._owed.append((store, operation))


def _note(
    part: Part,
    balances: Sequence[Balance],
    left: dict[str, dict[str, float]],
    due: list[tuple[Counter, Account, Balance]],
) -> None:
    """Note what is left of each budget, by its name, and who may have to warn."""
    for counter, account, balance in zip(part.counters, part.accounts, balances, strict=True):
        name, number = counter.budget.name, 1
        while name in left:  # of another account: one of the same is there once
            number += 1
            name = f"{counter.budget.name} {number}"
        left[name] = left_of(account, balance)
        if counter.is_due(balance):
            due.append((counter, account, balance))


def _nothing() -> Flow[None]:
    yield from ()
