"""The operations of an `SQLiteStore`, each inside a transaction that its caller opens and ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, assert_never

from .operations import (
    Account,
    Amount,
    Balance,
    Booking,
    Operation,
    Read,
    Reserve,
    Reserved,
    Settle,
)
from .sums import Counts, balance, booked, held_more, named, short_of

__all__ = ["Rows"]

_State: TypeAlias = Literal["held", "settled", "undone"]

_NONE: Counts = (0,) * 6
_SWEPT = 8  # expired rows of each table that one operation removes
_SLACK = 60.0  # seconds that an account outlives its window: calls of its last moment settle later

_LOOK = (
    "SELECT spent_requests, spent_tokens, spent_nanodollars, "
    "held_requests, held_tokens, held_nanodollars FROM accounts WHERE key = ?"
)
_SWEEPS = (
    "DELETE FROM accounts WHERE key IN (SELECT key FROM accounts WHERE expires < ? LIMIT ?)",
    "DELETE FROM calls WHERE id IN (SELECT id FROM calls WHERE expires < ? LIMIT ?)",
)


class Rows:
    """Accounts and calls in the tables of one connection.

    Args:
        remember: Seconds for which a settled call is known again.
        hold: The same for one that is still out.
    """

    def __init__(self, connection: sqlite3.Connection, *, remember: float, hold: float) -> None:
        self._connection, self._remember, self._hold = connection, remember, hold

    def do(self, operation: Operation) -> Any:
        match operation:
            case Reserve():
                self._sweep(operation.at)
                return self._reserve(operation)
            case Settle():
                self._sweep(operation.at)
                return self._settle(operation)
            case Read(accounts):
                return self._balances(accounts)
            case _:
                assert_never(operation)

    def give_back(self, reserve: Reserve) -> None:
        """Undo a reservation: one with an id where it is known to hold, any other at once."""
        if reserve.id and self._state(reserve.id) != "held":
            return
        for account in reserve.accounts:
            booking = Booking(account, held=reserve.amount, spent=Amount())
            self._keep(account, booked(self._row(account), booking, lets_go=True))
        self._note("undone", reserve.id, reserve.at)

    def _reserve(self, reserve: Reserve) -> Reserved:
        accounts, amount = reserve.accounts, reserve.amount
        if reserve.id and self._state(reserve.id) is not None:
            return Reserved(self._balances(accounts))
        before = {one.key: self._row(one) for one in accounts}
        rows = dict(before)
        for place, account in enumerate(accounts):
            short = short_of(rows[account.key], account, amount)
            if short is not None:
                return Reserved(tuple(balance(before[one.key]) for one in accounts), (place, short))
            rows[account.key] = held_more(rows[account.key], amount)
        for account in accounts:
            self._keep(account, rows[account.key])
        self._note("held", reserve.id, reserve.at)
        return Reserved(tuple(balance(rows[one.key]) for one in accounts))

    def _settle(self, settle: Settle) -> tuple[Balance, ...]:
        state = self._state(settle.id) if settle.id else None
        if state != "settled":
            for booking in settle.bookings:
                row = booked(self._row(booking.account), booking, lets_go=state != "undone")
                self._keep(booking.account, row)
            self._note("settled", settle.id, settle.at)
        return self._balances(one.account for one in settle.bookings)

    def _balances(self, accounts: Iterable[Account]) -> tuple[Balance, ...]:
        return tuple(balance(self._row(one)) for one in accounts)

    def _row(self, account: Account) -> Counts:
        found: Counts | None = self._connection.execute(_LOOK, [named(account.key)]).fetchone()
        return found or _NONE

    def _keep(self, account: Account, row: Counts) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [named(account.key), account.expires, *row],
        )

    def _state(self, call: str) -> _State | None:
        query = "SELECT state FROM calls WHERE id = ?"
        found: tuple[_State] | None = self._connection.execute(query, [named(call)]).fetchone()
        return found and found[0]

    def _note(self, state: _State, call: str, at: float) -> None:
        if call:
            expires = at + (self._hold if state == "held" else self._remember)
            self._connection.execute(
                "INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", [named(call), state, expires]
            )

    def _sweep(self, at: float) -> None:
        """Remove a few of what nobody asks for any more."""
        accounts, calls = _SWEEPS
        self._connection.execute(accounts, [at - _SLACK, _SWEPT])
        self._connection.execute(calls, [at, _SWEPT])
