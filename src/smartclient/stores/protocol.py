"""What every store is, whatever it keeps its state in."""

from __future__ import annotations

from typing import Any, Protocol

from .._errors import SmartClientError
from .._latch import Latch
from .operations import Operation

__all__ = ["Store", "StoreError"]


class StoreError(SmartClientError):
    """A store cannot be reached, or cannot do what it was asked.

    Attributes:
        maybe_done: It may have done it all the same.
    """

    __module__ = "smartclient.stores"  # where users know it from

    def __init__(self, message: str, *, maybe_done: bool = False) -> None:
        self.maybe_done = maybe_done
        super().__init__(message)


class Store(Protocol):
    """Does each operation in one step, whoever else asks at the same time.

    Attributes:
        is_quick: `do` never waits for anything, so that a loop may call it.
    """

    is_quick: bool

    def do(self, operation: Operation) -> Any:
        """The operation's answer, by blocking.

        Raises:
            StoreError: It cannot be reached.
        """
        ...

    async def do_async(self, operation: Operation) -> Any:
        """The same, by awaiting."""
        ...

    def changed(self) -> Latch:
        """Set the next time that something is let go here; other processes are not seen."""
        ...
