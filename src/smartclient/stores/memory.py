"""State in the memory of this process: one lock, and as much work as there are accounts."""

from __future__ import annotations

import os
from collections import deque
from heapq import heappop, heappush
from threading import Lock
from typing import Any
from weakref import WeakSet

from .._latch import Latch
from .operations import Account, Amount, Balance, Meter, Operation, Reserve, Reserved, Settle

__all__ = ["MemoryStore"]

_MOST_IDS = 8_192
"""Settlements that are remembered at least, so that one that comes again counts once."""

_NOTHING = Amount()


class _Entry:
    """What an account has come to."""

    __slots__ = ("held_requests", "held_tokens", "held_usd", "requests", "tokens", "usd")

    def __init__(self) -> None:
        self.requests = self.tokens = self.usd = 0
        self.held_requests = self.held_tokens = self.held_usd = 0

    def balance(self) -> Balance:
        return Balance(
            Amount(requests=self.requests, tokens=self.tokens, nanodollars=self.usd),
            Amount(requests=self.held_requests, tokens=self.held_tokens, nanodollars=self.held_usd),
        )

    def short(self, account: Account, amount: Amount) -> Meter | None:
        """The first meter without room for `amount`."""
        most = account.requests
        if most is not None and self.requests + self.held_requests + amount.requests > most:
            return "requests"
        most = account.tokens
        if most is not None and self.tokens + self.held_tokens + amount.tokens > most:
            return "tokens"
        most = account.nanodollars
        if most is not None and self.usd + self.held_usd + amount.nanodollars > most:
            return "nanodollars"
        return None

    def hold(self, amount: Amount) -> None:
        self.held_requests += amount.requests
        self.held_tokens += amount.tokens
        self.held_usd += amount.nanodollars

    def settle(self, held: Amount, spent: Amount) -> None:
        self.held_requests -= held.requests
        self.held_tokens -= held.tokens
        self.held_usd -= held.nanodollars
        if self.held_requests < 0 or self.held_tokens < 0 or self.held_usd < 0:
            # More than is held cannot be let go: that would be room that nobody gave.
            self.held_requests = max(0, self.held_requests)
            self.held_tokens = max(0, self.held_tokens)
            self.held_usd = max(0, self.held_usd)
        self.requests += spent.requests
        self.tokens += spent.tokens
        self.usd += spent.nanodollars


class MemoryStore:
    """Keeps accounts for as long as this process lives, and for nobody else.

    Threads and loops share it. A settlement never waits, not even for the lock, so that a
    finalizer can make it: whoever holds the lock books it. A forked child goes on with what
    was spent, and without what calls of its parent hold.
    """

    is_quick = True

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[str, _Entry] = {}
        self._expiring: list[tuple[float, str]] = []
        self._out: set[str] = set()  # reservations that have a name, and are not settled
        self._settled: set[str] = set()
        self._settled_before: set[str] = set()  # the older half of those that are remembered
        self._inbox: deque[Settle] = deque()
        self._changed: Latch | None = None  # once somebody asks for it
        _STORES.add(self)

    def do(self, operation: Operation) -> Any:
        """The operation's answer, at once."""
        if isinstance(operation, Settle):
            return self._settle(operation)
        if self._inbox:
            self._book_waiting()
        with self._lock:
            if self._expiring and self._expiring[0][0] <= operation.at:
                self._expire(operation.at)
            if isinstance(operation, Reserve):
                answer: Any = self._reserve(operation)
            else:
                answer = tuple([self._balance(one) for one in operation.accounts])
        if self._inbox:
            self._book_waiting()
        return answer

    async def do_async(self, operation: Operation) -> Any:
        """The same: nothing is waited for."""
        return self.do(operation)

    def changed(self) -> Latch:
        """Set the next time that something is let go."""
        with self._lock:
            if self._changed is None:
                self._changed = Latch()
            return self._changed

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a MemoryStore, and a budget that counts in one, stays in its process; give budgets "
            "of several processes a store that they share"
        )

    def _reserve(self, operation: Reserve) -> Reserved:
        amount, id = operation.amount, operation.id
        if id and (id in self._out or self._is_settled(id)):
            return Reserved(self._stands(operation))
        held: list[_Entry] = []
        for index, account in enumerate(operation.accounts):
            entry = self._entries.get(account.key) or self._entry(account)
            meter = entry.short(account, amount)
            if meter is not None:
                for one in held:
                    one.settle(amount, _NOTHING)
                return Reserved(self._stands(operation), (index, meter))
            entry.hold(amount)
            held.append(entry)
        if id:
            self._out.add(id)
        return Reserved(tuple([entry.balance() for entry in held]))

    def _stands(self, operation: Reserve) -> tuple[Balance, ...]:
        return tuple([self._balance(account) for account in operation.accounts])

    def _is_settled(self, id: str) -> bool:
        return id in self._settled or id in self._settled_before

    def _settle(self, operation: Settle) -> tuple[Balance, ...]:
        if not self._lock.acquire(blocking=False):
            # Whoever holds the lock books it; this is how it stands meanwhile.
            self._inbox.append(operation)
            self._book_waiting()
            return self._balances(operation)
        try:
            freed = self._book(operation)
            answer = self._balances(operation)
        finally:
            self._lock.release()
        if freed is not None:
            freed.set()
        if self._inbox:
            self._book_waiting()
        return answer

    def _book_waiting(self) -> None:
        """Book what waits, unless somebody holds the lock: that one looks again afterwards."""
        while self._inbox and self._lock.acquire(blocking=False):
            freed: list[Latch] = []
            try:
                while self._inbox:
                    latch = self._book(self._inbox.popleft())
                    if latch is not None:
                        freed.append(latch)
            finally:
                self._lock.release()
            for latch in freed:
                latch.set()

    def _book(self, operation: Settle) -> Latch | None:
        """Book one; what is to be set when the lock is free again."""
        if self._expiring and self._expiring[0][0] <= operation.at:
            self._expire(operation.at)
        id = operation.id
        if id:
            if self._is_settled(id):
                return None
            self._out.discard(id)
            self._settled.add(id)
            if len(self._settled) >= _MOST_IDS:
                self._settled_before, self._settled = self._settled, set()
        for booking in operation.bookings:
            account = booking.account
            if account.expires is None or account.expires > operation.at:
                entry = self._entries.get(account.key) or self._entry(account)
                entry.settle(booking.held, booking.spent)
        freed, self._changed = self._changed, None
        return freed

    def _entry(self, account: Account) -> _Entry:
        entry = self._entries[account.key] = _Entry()
        if account.expires is not None:
            heappush(self._expiring, (account.expires, account.key))
        return entry

    def _balances(self, operation: Settle) -> tuple[Balance, ...]:
        return tuple([self._balance(booking.account) for booking in operation.bookings])

    def _balance(self, account: Account) -> Balance:
        entry = self._entries.get(account.key)
        return Balance() if entry is None else entry.balance()

    def _expire(self, now: float) -> None:
        while self._expiring and self._expiring[0][0] <= now:
            self._entries.pop(heappop(self._expiring)[1], None)

    def _forked(self) -> None:
        """In a child: its parent's calls are not its own, and no thread of it has the lock."""
        self._lock = Lock()
        self._inbox.clear()
        self._out.clear()
        self._changed = None
        for entry in list(self._entries.values()):
            entry.held_requests = entry.held_tokens = entry.held_usd = 0


_STORES: WeakSet[MemoryStore] = WeakSet()


def _all_forked() -> None:
    for store in list(_STORES):
        store._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all_forked)
