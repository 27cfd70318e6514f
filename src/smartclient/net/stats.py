"""What the connections of this process are doing, and have done, whoever opened them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from msgspec import Struct

from .pool import Tally
from .pools import Pools

__all__ = ["PoolStats", "pool_stats", "remember", "watch"]


class PoolStats(Struct, frozen=True, kw_only=True):
    """Connections of this process, in all its threads and event loops.

    Attributes:
        open: Connections that are open.
        idle: Those that carry no call.
        active: Those that carry one or more.
        opening: Those that are being opened.
        streams: Calls in flight; over HTTP/2 several share a connection.
        queued: Calls that wait for a connection.
        opened: How many were opened since the process started.
        reused: How often one was used again.
        closed: How many were closed, by whichever side.
    """

    open: int = 0
    idle: int = 0
    active: int = 0
    opening: int = 0
    streams: int = 0
    queued: int = 0
    opened: int = 0
    reused: int = 0
    closed: int = 0


def _never() -> bool:
    return False


class _Watched:
    """All pools there are, with what says that they are gone; and what those did that are."""

    lock = Lock()
    pools: list[tuple[Pools[Any], Callable[[], bool]]] = []  # noqa: RUF012  # threads', loops'
    gone = Tally()

    @classmethod
    def forget(cls) -> None:
        """In a forked child, which has no connection yet."""
        cls.lock, cls.pools, cls.gone = Lock(), [], Tally()


os.register_at_fork(after_in_child=_Watched.forget)


def watch(pools: Pools[Any], is_gone: Callable[[], bool] = _never) -> None:
    """Count what happens in `pools`.

    Args:
        is_gone: Whether their loop was closed, and every connection with it.
    """
    with _Watched.lock:
        _Watched.pools.append((pools, is_gone))


def remember(pools: Pools[Any]) -> None:
    """These pools are gone; what they did still counts."""
    with _Watched.lock:
        kept = [one for one in _Watched.pools if one[0] is not pools]
        if len(kept) < len(_Watched.pools):
            _Watched.pools = kept
            _bury(pools)


def _bury(pools: Pools[Any]) -> None:
    _add(_Watched.gone, [pools.tally])
    # Whatever was open was closed with its loop.
    _Watched.gone.closed += sum(len(one.idle) + len(one.active) for one in pools.by_key.values())


def pool_stats() -> PoolStats:
    """The connections of this process, by this moment's count."""
    with _Watched.lock:
        for gone in [pools for pools, is_gone in _Watched.pools if is_gone()]:
            _Watched.pools = [one for one in _Watched.pools if one[0] is not gone]
            _bury(gone)
        pools, tally = [pools for pools, _ in _Watched.pools], Tally()
        _add(tally, [_Watched.gone, *(one.tally for one in pools)])
    found = [each for one in pools for each in _counted(one)]
    idle, active, opening, streams, queued = (
        (sum(column) for column in zip(*found, strict=True)) if found else (0, 0, 0, 0, 0)
    )
    return PoolStats(
        open=idle + active,
        idle=idle,
        active=active,
        opening=opening,
        streams=streams,
        queued=queued,
        opened=tally.opened,
        reused=tally.reused,
        closed=tally.closed,
    )


def _counted(pools: Pools[Any]) -> Iterable[tuple[int, int, int, int, int]]:
    # A copy: the pools of another loop may change meanwhile.
    for pool in list(pools.by_key.values()):
        counts = pool.counts
        yield (
            counts.idle,
            len(pool.active),
            pool.opening,
            counts.active - pool.opening,
            counts.queued,
        )
    for limiter in list(pools.limiters.values()):
        yield (0, 0, 0, 0, len(limiter.waiters))


def _add(total: Tally, parts: Iterable[Tally]) -> None:
    for part in parts:
        total.opened += part.opened
        total.reused += part.reused
        total.closed += part.closed
