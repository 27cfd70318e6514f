"""Where state lives that calls share: in this process, on this machine, or across machines."""

from __future__ import annotations

from .memory import MemoryStore
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
from .protocol import Store, StoreError

__all__ = [
    "Account",
    "Amount",
    "Balance",
    "Booking",
    "MemoryStore",
    "Operation",
    "Read",
    "Reserve",
    "Reserved",
    "Settle",
    "Store",
    "StoreError",
]
