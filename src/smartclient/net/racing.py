"""Which address is tried when: one after another, a little apart, the first to answer wins.

Source: RFC 8305, section 5. A dead address costs a quarter of a second, not the whole timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tcp import Address

__all__ = ["ATTEMPT_DELAY", "Race"]

ATTEMPT_DELAY = 0.25
"""Seconds that an attempt has for itself before the next one starts beside it."""


class Race:
    """What to do next; sockets and time are the driver's.

    Attributes:
        running: How many attempts are on their way.
        error: Why the last one that failed did.
    """

    def __init__(self, addresses: Iterable[Address]) -> None:
        self._waiting = deque(addresses)
        self._is_due = True
        self.running = 0
        self.error: OSError = OSError("there is no address to try")

    @property
    def has_more(self) -> bool:
        """Whether an address was not tried yet."""
        return bool(self._waiting)

    @property
    def is_lost(self) -> bool:
        """Whether all have failed."""
        return not (self._waiting or self.running)

    def start(self) -> Address | None:
        """The address to try now; `None`: wait, at most `ATTEMPT_DELAY` while there are more."""
        if not self._waiting or not self._is_due:
            return None
        self._is_due = False
        self.running += 1
        return self._waiting.popleft()

    def is_late(self) -> None:
        """Nothing has happened for `ATTEMPT_DELAY`: the next one may start."""
        self._is_due = True

    def failed(self, error: OSError) -> None:
        """One that was running has failed: the next one starts at once."""
        self.running -= 1
        self.error = error
        self._is_due = True
