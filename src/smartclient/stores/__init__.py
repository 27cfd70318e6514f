"""Where state lives that calls share: in this process, on this machine, or across machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from .redis import RedisStore
    from .sqlite import SQLiteStore

__all__ = [
    "Account",
    "Amount",
    "Balance",
    "Booking",
    "MemoryStore",
    "Operation",
    "Read",
    "RedisStore",
    "Reserve",
    "Reserved",
    "SQLiteStore",
    "Settle",
    "Store",
    "StoreError",
]

_LATER = {"RedisStore": "redis", "SQLiteStore": "sqlite"}


def __getattr__(name: str) -> Any:
    """Load a store when it is first asked for."""
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return found
