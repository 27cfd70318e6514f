"""Who gets which connection: decisions without I/O, in constant time per event.

Idle connections are taken last in, first out, so that the rest can expire; calls that wait
are served first in, first out. Whatever becomes free is given to one waiter, and only that
one is woken, so a thousand queued calls cost no more than ten.

A connection may be shared (HTTP/2): it has room for several calls, and each is counted like a
connection of its own. Calls that come while one is being opened that will be shared, or may
be, wait for it instead of opening a hundred.

Invariants: idle connections, calls in flight and connections being opened are `limit` at most
together, and nobody waits while a connection is idle, has room, or may be opened.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import inf
from typing import Generic, NamedTuple, TypeVar

from .lifetime import Lifetime

__all__ = ["MOST_STREAMS", "Counts", "Pool", "Sharing", "Tally", "Waiter"]

C = TypeVar("C", bound=Hashable)

MOST_STREAMS = 100
"""Most calls on one connection: a lost packet stalls them all."""


class Sharing:
    """What is known about the connections of one way; it outlives its pool.

    Attributes:
        is_shared: Whether they carry several calls at once; `None` while nobody knows.
        room: How many that is.
    """

    __slots__ = ("is_shared", "room")

    def __init__(self, is_shared: bool | None = False) -> None:
        self.is_shared = is_shared
        self.room = MOST_STREAMS


class _Room:
    """How many calls a shared connection carries, and may carry."""

    __slots__ = ("expires", "size", "used")

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 1
        self.expires: float | None = None  # as the last call on it said


class Tally:
    """How many connections were opened and closed, and how often one was used again."""

    __slots__ = ("closed", "opened", "reused")

    def __init__(self) -> None:
        self.opened = self.reused = self.closed = 0


class Waiter(Generic[C]):
    """A call that waits for a connection, or for the place to open one.

    Args:
        wake: Called once, when something was granted; must neither block nor raise.
        owner: Whose call it is.

    Attributes:
        is_granted: Something was granted: `connection`, or where that is `None` a place.
    """

    __slots__ = ("connection", "expires", "is_granted", "owner", "wake")

    def __init__(self, wake: Callable[[], object], owner: object = None) -> None:
        self.wake = wake
        self.owner = owner
        self.is_granted = False
        self.connection: C | None = None
        self.expires: float | None = None


class Counts(NamedTuple):
    """How many connections are idle, and active or being opened; how many calls are queued."""

    idle: int = 0
    active: int = 0
    queued: int = 0


class Pool(Generic[C]):
    """The connections to one origin under one set of options.

    Not thread-safe: callers bring their lock, or their loop.

    Attributes:
        expired: Connections that the caller has to close, see `take`.
        life: How long idle ones live.
        roomy: Shared connections in use that can carry another call, used last last.
    """

    __slots__ = (
        "_num_beside",
        "_rooms",
        "active",
        "expired",
        "idle",
        "life",
        "limit",
        "opening",
        "roomy",
        "sharing",
        "tally",
        "waiters",
    )

    def __init__(
        self,
        limit: int,
        sharing: Sharing | None = None,
        life: Lifetime | None = None,
        tally: Tally | None = None,
    ) -> None:
        self.limit = limit
        self.sharing = sharing or Sharing()
        self.life = life or Lifetime()
        self.tally = tally or Tally()
        self.idle: OrderedDict[C, float | None] = OrderedDict()  # -> expiry; oldest first
        self.active: set[C] = set()
        self.roomy: OrderedDict[C, None] = OrderedDict()
        self.opening = 0
        self.waiters: OrderedDict[Waiter[C], None] = OrderedDict()
        self.expired: list[C] = []
        self._rooms: dict[C, _Room] = {}  # of the shared ones, idle or active
        self._num_beside = 0  # calls beside the first of each active connection

    @property
    def counts(self) -> Counts:
        in_flight = len(self.active) + self._num_beside
        return Counts(len(self.idle), in_flight + self.opening, len(self.waiters))

    @property
    def is_unused(self) -> bool:
        return not (self.idle or self.active or self.opening or self.waiters or self.expired)

    def allow(self, limit: int) -> None:
        """Raise the limit to this one, where it is lower."""
        if limit > self.limit:
            self.limit = limit
            self._serve()

    def take(self, now: float) -> C | None:
        """A connection with room, or the one used last, now active.

        Expired ones are moved to `expired`.
        """
        if self.roomy and not self._is_full:
            self.tally.reused += 1
            return self._join()
        while self.idle:
            connection, expires = self.idle.popitem()
            if expires is None or expires > now:
                self.tally.reused += 1
                self._use(connection)
                return connection
            self._expire(connection)
        return None

    def reserve(self) -> bool:
        """Hold a place for a connection that will be opened, if there is one.

        There is none either while what is being opened may have room for all who wait.
        """
        if not self._may_open():
            return False
        self.opening += 1
        return True

    def fill(self, connection: C, room: int | None = None) -> None:
        """Put a new connection, active, into the place that was held.

        Args:
            room: How many calls it carries at once, where it can be shared; one is on it.
        """
        assert self.opening > 0
        self.opening -= 1
        self.tally.opened += 1
        self.active.add(connection)
        self.sharing.is_shared = room is not None
        if room is not None:
            self._rooms[connection] = _Room(room)
            self.sharing.room = room
            self._place(connection)
        self._serve()

    def vacate(self) -> None:
        """Give up a held place: no connection came of it."""
        assert self.opening > 0
        self.opening -= 1
        self._serve()

    def swap(self, connection: C, now: float) -> C | None:
        """Leave an active connection that carries nothing more for an idle one.

        `None`: its place is held instead.
        """
        self.tally.reused -= 1  # it was not, after all
        if self._leave(connection):
            self._rooms[connection].size = 0  # or it would be the next to be taken
            self._place(connection)
        else:
            self.tally.closed += 1
            self._rooms.pop(connection, None)
        other = self.take(now)
        if other is None:
            self.opening += 1
        return other

    def release(self, connection: C, expires: float | None, *, last: bool = True) -> None:
        """Take an active connection, or a call's room on it, back for who waits longest.

        Args:
            expires: Until when it may lie idle, on the clock of `take`; `None`: for ever.
            last: Whether it is the next to be taken; otherwise it is the last resort.
        """
        room = self._rooms.get(connection)
        if room is not None:
            room.expires = expires
        if self.waiters and (room is None or room.used <= room.size):
            self._grant(connection, expires)
            return
        if not self._leave(connection):
            if room is None or room.size:
                self.idle[connection] = expires
                if not last:
                    self.idle.move_to_end(connection, last=False)
            else:
                self._expire(connection)
        self._serve()

    def prefer(self, connection: C) -> None:
        """Make an idle connection the next to be taken."""
        self.idle.move_to_end(connection)

    def resize(self, connection: C, room: int) -> None:
        """Let a shared connection carry `room` calls at once; with 0 it is used up."""
        known = self._rooms.get(connection)
        if known is None:
            return  # closed meanwhile
        known.size = room
        if room:
            self.sharing.room = room
        elif connection in self.idle:
            del self.idle[connection]
            self._expire(connection)
            self._serve()
            return
        self._place(connection)
        self._serve()

    def discard(self, connection: C) -> None:
        """Forget a connection, active or idle, that is closed; known ones only count once."""
        room = self._rooms.pop(connection, None)
        self.roomy.pop(connection, None)
        if connection in self.active:
            self.tally.closed += 1
            self.active.remove(connection)
            self._num_beside -= room.used - 1 if room is not None else 0
            self._serve()
        elif connection in self.idle:
            self.tally.closed += 1
            del self.idle[connection]

    def wait(self, waiter: Waiter[C]) -> None:
        """Queue behind all who wait."""
        self.waiters[waiter] = None

    def leave(self, waiter: Waiter[C]) -> None:
        """Stop waiting; what was granted meanwhile goes to the next in line."""
        if not waiter.is_granted:
            self.waiters.pop(waiter, None)
            return
        waiter.is_granted = False
        if waiter.connection is None:
            self.vacate()
        elif waiter.connection in self.active:
            room = self._rooms.get(waiter.connection)
            self.release(waiter.connection, room.expires if room else waiter.expires)

    def send_away(self, owner: object) -> None:
        """Let `owner`'s calls wait no longer: they are woken, and granted nothing."""
        for waiter in [one for one in self.waiters if one.owner is owner]:
            self.leave(waiter)
            waiter.wake()

    def expire(self, now: float) -> None:
        """Move idle connections that are too old to `expired`, oldest first; at `inf` all."""
        for connection, expires in list(self.idle.items()):
            # Each has an end of its own: of a client's options, or as its server said.
            if now == inf or (expires is not None and expires <= now):
                del self.idle[connection]
                self._expire(connection)

    @property
    def _is_full(self) -> bool:
        in_flight = len(self.active) + self._num_beside
        return len(self.idle) + in_flight + self.opening >= self.limit

    def _may_open(self) -> bool:
        if self._is_full:
            return False
        if self.sharing.is_shared is False or not self.opening:
            return True
        # Each that is being opened has room for others beside the call that opens it.
        return len(self.waiters) >= self.opening * (self.sharing.room - 1)

    def _serve(self) -> None:
        """Grant what is free to those who wait."""
        while self.waiters:
            if self.roomy and not self._is_full:
                self._grant(self._join(), None)
            elif self._may_open():
                self.opening += 1
                self._grant(None, None)
            else:
                return

    def _grant(self, connection: C | None, expires: float | None) -> None:
        self.tally.reused += connection is not None
        waiter, _ = self.waiters.popitem(last=False)
        waiter.is_granted, waiter.connection, waiter.expires = True, connection, expires
        waiter.wake()

    def _use(self, connection: C) -> None:
        """An idle connection is active now, with one call."""
        self.active.add(connection)
        if (room := self._rooms.get(connection)) is not None:
            room.used = 1
            self._place(connection)

    def _join(self) -> C:
        """One more call on the roomy connection used last."""
        connection = next(reversed(self.roomy))
        self._rooms[connection].used += 1
        self._num_beside += 1
        self._place(connection)
        return connection

    def _leave(self, connection: C) -> bool:
        """One call less on an active connection; whether others are left on it."""
        room = self._rooms.get(connection)
        if room is not None:
            room.used -= 1
            if room.used:
                self._num_beside -= 1
                self._place(connection)
                return True
        self.roomy.pop(connection, None)
        self.active.remove(connection)
        return False

    def _place(self, connection: C) -> None:
        """Keep `roomy` true for a shared connection."""
        room = self._rooms[connection]
        if connection in self.active and room.used < room.size:
            self.roomy[connection] = None
        else:
            self.roomy.pop(connection, None)

    def _expire(self, connection: C) -> None:
        self.tally.closed += 1
        self._rooms.pop(connection, None)
        self.expired.append(connection)
