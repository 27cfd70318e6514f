"""A client's own limit on its connections to one origin, beside that of the pool it shares.

It is a pool too, of bare places: a call takes one before it asks for a connection, and gives
it back when its connection leaves it. So places go first in, first out, each to one who waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .._call import Call, Deadline
from .._errors import ExchangeError
from . import failures
from .options import REAL
from .pool import Pool

__all__ = ["Carrier", "Limiter", "Place", "free_place", "time_left", "waited_too_long"]


class Place:
    """What a call holds beside its connection.

    Attributes:
        held: Method, target and start of the call.
        pool: Where it is counted.
    """

    __slots__ = ("held", "pool")

    pool: Limiter

    def __init__(self, call: Call) -> None:
        self.held: tuple[str, str, float] | None = (call.method, call.target, REAL())

    def free(self) -> None:
        """Hand it to who waits longest; once is enough, and twice does no harm."""
        self.pool.discard(self)


class Limiter(Pool[Place]):
    """The places of one client on the way to one origin."""

    __slots__ = ()


class Carrier(Protocol):
    """What carries a call that may hold a place."""

    place: Place | None


def free_place(carrier: Carrier) -> None:
    """The call has left `carrier`: so it leaves its place."""
    place, carrier.place = carrier.place, None
    if place is not None:
        place.free()


def time_left(timeout: float | None, waited: float) -> float | None:
    """Of the time for a connection, when some of it went by for a place."""
    return None if timeout is None else max(0.0, timeout - waited)


def waited_too_long(
    pool: Pool[Any], call: Call, by: Deadline | None, *, waited: float, held: Sequence[str]
) -> ExchangeError:
    """What a call that left the queue of `pool` is told, after `waited` seconds.

    Args:
        by: The deadline, where it was that which ended the wait.
        held: What has held the pool's connections, or its places, for longest.
    """
    counted = pool.counts
    error = failures.pool_timeout(
        call.origin,
        timeout=call.timeout.pool or 0.0,
        waited=waited,
        limit=pool.limit,
        active=counted.active,
        queued=counted.queued,
        held=held,
        is_own=isinstance(pool, Limiter),
    )
    return failures.late(error, by, stage="pool")
