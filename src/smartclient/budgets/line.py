"""Who waits for room in an account, first come, first served, so that big calls get theirs."""

from __future__ import annotations

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

    __slots__ = ("tickets",)

    def __init__(self) -> None:
        self.tickets: deque[Latch] = deque()

    def join(self) -> Latch:
        """A ticket for the last place."""
        ticket = Latch()
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
