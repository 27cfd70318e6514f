"""The sums of accounts, without I/O: what fits, and what an account comes to.

Counts are whole numbers up to 2**53, which doubles hold exactly: scripts in Redis have no
others. Every store that keeps counts outside this process has the same bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from .operations import Account, Amount, Balance, Booking, Meter, Operation, Read, Reserve

__all__ = [
    "HOLD",
    "METERS",
    "MOST",
    "Counts",
    "balance",
    "booked",
    "check",
    "counts",
    "held_more",
    "limits",
    "named",
    "short_of",
]

METERS: tuple[Meter, ...] = ("requests", "tokens", "nanodollars")
MOST = 2**53
HOLD = 86_400.0
"""Seconds for which a reservation is known by its id, while its call is out."""

Counts: TypeAlias = tuple[int, ...]
"""One of each meter, in their order."""


def counts(amount: Amount) -> Counts:
    return amount.requests, amount.tokens, amount.nanodollars


def limits(account: Account) -> tuple[int | None, ...]:
    return account.requests, account.tokens, account.nanodollars


def named(name: str) -> str:
    """`name` as every store can keep it: lone surrogates are no text to them."""
    return name.encode("utf-8", "backslashreplace").decode()


def balance(row: Counts) -> Balance:
    """From what is spent of each meter, followed by what is held of each."""
    spent, held = row[:3], row[3:]
    return Balance(
        Amount(requests=spent[0], tokens=spent[1], nanodollars=spent[2]),
        Amount(requests=held[0], tokens=held[1], nanodollars=held[2]),
    )


def short_of(row: Counts, account: Account, amount: Amount) -> Meter | None:
    """The first meter of `account` without room for `amount`."""
    for place, (limit, wanted) in enumerate(zip(limits(account), counts(amount), strict=True)):
        most = MOST if limit is None else min(limit, MOST)
        if row[place] + row[place + 3] + wanted > most:
            return METERS[place]
    return None


def held_more(row: Counts, amount: Amount) -> Counts:
    """What `row` comes to with `amount` held."""
    return *row[:3], *(had + more for had, more in zip(row[3:], counts(amount), strict=True))


def booked(row: Counts, booking: Booking, *, lets_go: bool) -> Counts:
    """What `row` comes to; between none and `MOST`."""
    spent = zip(row[:3], counts(booking.spent), strict=True)
    held = zip(row[3:], counts(booking.held), strict=True)
    return (
        *(min(max(had + more, 0), MOST) for had, more in spent),
        *(max(had - less, 0) if lets_go else had for had, less in held),
    )


def check(operation: Operation) -> None:
    """Refuse what cannot be counted exactly, or would make room by holding less than nothing.

    Raises:
        TypeError: A count is no whole number.
        ValueError: It is out of bounds.
    """
    if isinstance(operation, Read):
        return
    if isinstance(operation, Reserve):
        _check_counts("amount", counts(operation.amount), least=0)
        return
    for booking in operation.bookings:
        _check_counts("held", counts(booking.held), least=0)
        _check_counts("spent", counts(booking.spent), least=-MOST)


def _check_counts(what: str, numbers: Iterable[int], *, least: int) -> None:
    for number, meter in zip(numbers, METERS, strict=True):
        if type(number) is not int:
            raise TypeError(f"{what}.{meter} must be a whole number, not {number!r}")
        if not least <= number <= MOST:
            raise ValueError(
                f"{what}.{meter} must be from {least:,} to {MOST:,}, not {number:,}: "
                "beyond that a store cannot count exactly"
            )
