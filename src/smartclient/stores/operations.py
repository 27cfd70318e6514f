"""What a store can be asked: plain values, so that every store means the same by them.

An account counts what calls took of one budget in one window: how much is spent, and how
much is held by calls that are still out. `Reserve` is all or none over its accounts. They are of
plain values only, so the collector need not look at them (`gc=False`).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = [
    "Account",
    "Amount",
    "Balance",
    "Booking",
    "Meter",
    "Operation",
    "Read",
    "Reserve",
    "Reserved",
    "Settle",
]

Meter: TypeAlias = Literal["requests", "tokens", "nanodollars"]


class Amount(Struct, frozen=True, kw_only=True, gc=False):
    """So much of each meter; whole numbers, which every store adds exactly.

    Attributes:
        nanodollars: Billionths of a dollar. A double holds them exactly up to 9 million
            dollars, which is what scripts in Redis count with.
    """

    requests: int = 0
    tokens: int = 0
    nanodollars: int = 0


class Account(Struct, frozen=True, gc=False):
    """One budget in one window; of each meter what may be spent and held together.

    Attributes:
        key: Its name in the store; each window has one of its own.
        requests: `None`: without a limit; so for the other two.
        expires: Unix seconds from which nobody asks for it any more; `None`: for ever.
    """

    key: str
    requests: int | None = None
    tokens: int | None = None
    nanodollars: int | None = None
    expires: float | None = None


class Booking(Struct, frozen=True, gc=False):
    """What a settlement changes in one account: what was held is let go, `spent` is added."""

    account: Account
    held: Amount
    spent: Amount


class Reserve(Struct, frozen=True, gc=False):
    """Hold `amount` in every one of `accounts`, or in none; answered with `Reserved`.

    One that ends in an exception holds nothing, also one whose caller was cancelled: what it
    may have taken all the same, the store gives back by itself, as soon as it can.

    Attributes:
        at: Unix seconds.
        id: Of the call, as its `Settle` will have it; the same reservation twice holds once.
            Empty: the store makes one up.
    """

    accounts: tuple[Account, ...]
    amount: Amount
    at: float
    id: str = ""


class Settle(Struct, frozen=True, gc=False):
    """Book what a call came to; answered with a `Balance` for each booking.

    Never refused: what was used was used, also above a limit. More cannot be let go than is
    held, which a store that lost its state would otherwise turn into room. One with an id that
    ends in an exception the store keeps, and books by itself as soon as it can: nobody
    sends it again.

    Attributes:
        id: Of the call; the same settlement twice counts once. Empty: nobody sends it twice.
        at: Unix seconds.
    """

    id: str
    bookings: tuple[Booking, ...]
    at: float


class Read(Struct, frozen=True, gc=False):
    """Look; answered with a `Balance` for each of `accounts`."""

    accounts: tuple[Account, ...]
    at: float


class Balance(Struct, frozen=True, gc=False):
    """What an account came to."""

    spent: Amount = Amount()
    held: Amount = Amount()


class Reserved(Struct, frozen=True, gc=False):
    """How a `Reserve` went.

    Attributes:
        balances: Of each account: after it, or where it was refused as they stand.
        short: Index of the first account without room, and the meter; `None`: all is held.
    """

    balances: tuple[Balance, ...]
    short: tuple[int, Meter] | None = None


Operation: TypeAlias = Reserve | Settle | Read
