"""Who waits for room in an account, first come, first served, so that big calls get theirs."""

from __future__ import annotations

import os
from collections import deque

from .._latch import Latch

__all__ = ["Line"]


class Line:
    """Those who wait in this process; only the first of them asks for room.

    Each has a ticket, a latch that opens when its turn comes. No lock: a deque's single steps
    are whole, and a turn that is told twice does no harm.

    Attributes:
        tickets: In their order.
    """

    __slots__ = ("_pid", "tickets")

    def __init__(self) -> None:
        self.tickets: deque[Latch] = deque()
        self._pid = 0

    @property
    def is_waited_in(self) -> bool:
        """Whether somebody stands in it; not those of a parent, who never leave a fork's line."""
        if self.tickets and self._pid != os.getpid():
            self.tickets = deque()
        return bool(self.tickets)

    def join(self) -> Latch:
        """A ticket for the last place."""
        ticket = Latch()
        if not self.is_waited_in:
            self._pid = os.getpid()
        self.tickets.append(ticket)
        return ticket

    def is_first(self, ticket: Latch) -> bool:
        try:
            return self.tickets[0] is ticket
        except IndexError:  # nobody is left
            return False

    def leave(self, ticket: Latch) -> None:
        """Give the place up; safe to call twice."""
        try:
            self.tickets.remove(ticket)
        except ValueError:
            return
        try:
            self.tickets[0].set()
        except IndexError:  # nobody is left
            return
