"""The pools behind their lock."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from smartclient.net import pools, stats
from smartclient.net.lobby import Lobby
from smartclient.net.pool import Counts
from smartclient.net.sockets import SocketConnection

from .ways import a_route

ROUTE = a_route()


@pytest.fixture(autouse=True)
def watched_here_only(monkeypatch):
    """`pool_stats` counts a test's own lobby no longer than the test."""
    monkeypatch.setattr(stats._Watched, "pools", [*stats._Watched.pools])


def entered(lobby: Lobby, owner: object = None) -> SocketConnection:
    """An active connection, whose other end is closed."""
    pool, connection, _ = lobby.enter(ROUTE, 0.0, owner)
    if connection is None:
        ours, theirs = socket.socketpair()
        theirs.close()
        connection = SocketConnection(ours, ROUTE.origin, pool)
        connection.owner = owner
        lobby.fill(connection)
    return connection


def test_finalizer_inside_the_lock_is_served_by_whoever_holds_it():
    lobby = Lobby()
    connection = entered(lobby)

    connection.cut()
    with lobby._lock:
        lobby.discard(connection)
        counts_inside = lobby._pools.counts
    lobby._reclaim()

    assert (counts_inside.active, lobby.counts()) == (1, Counts())


def test_connection_cut_by_its_client_is_not_kept():
    lobby = Lobby()
    connection = entered(lobby)
    connection.cut()

    lobby.release(connection, 100.0)

    assert lobby.counts() == Counts()


def test_eviction_cuts_the_owners_connections_only():
    lobby = Lobby()
    mine, other = entered(lobby, "me"), entered(lobby, "you")

    lobby.evict("me")

    assert (mine.is_cut, other.is_cut, lobby.counts()) == (True, False, Counts(active=1))
    other.cut()


def test_connection_that_was_evicted_has_no_place_to_exchange():
    lobby = Lobby()
    connection = entered(lobby, "me")
    lobby.evict("me")

    with pytest.raises(RuntimeError, match="this client is closed"):
        lobby.swap(connection, 0.0)


def test_what_is_granted_just_as_the_time_runs_out_is_taken(monkeypatch):
    monkeypatch.setattr(pools, "MOST_CONNECTIONS", 1)
    lobby = Lobby()
    held = entered(lobby)
    pool, _, ticket = lobby.enter(ROUTE, 0.0, None)
    with lobby._lock:
        lobby.release(held, None)  # left to whoever has the lock, who is about to wait

    assert lobby.wait(pool, ticket, 0.0)
    assert ticket.connection is held
    held.cut()


@pytest.mark.parametrize(
    "finish",
    [
        pytest.param(lambda lobby, one: lobby.discard(one), id="discard"),
        pytest.param(lambda lobby, one: lobby.release(one, None), id="release"),
        pytest.param(lambda lobby, one: lobby.evict("me"), id="evict"),
    ],
)
def test_whatever_a_finalizer_does_inside_the_lock_waits_until_it_is_free(finish):
    """An SDK's generator closes its reply in a `finally`, wherever it is collected."""
    lobby = Lobby()
    connection = entered(lobby, "me")

    def collect() -> None:
        with lobby._lock:
            finish(lobby, connection)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(5)

    assert not thread.is_alive()
    assert lobby.counts().active == 0
    connection.cut()


class BusyLock:
    """A lock before whose release another thread leaves something to do, once."""

    def __init__(self, leave) -> None:
        self._lock, self._left = threading.Lock(), [leave]
        self.acquire = self._lock.acquire

    def release(self) -> None:
        while self._left:
            self._left.pop()()
        self._lock.release()


def test_what_is_left_just_before_the_lock_is_free_is_done_as_well():
    lobby = Lobby()
    idle, late = entered(lobby), entered(lobby)
    lobby._lock = BusyLock(lambda: lobby.release(late, None))

    lobby.release(idle, None)

    assert lobby._pools.counts == Counts(idle=2)
    idle.cut()
    late.cut()


def test_child_forgets_connections_and_queues_and_gets_a_free_lock():
    lobby = Lobby()
    idle, active = entered(lobby), entered(lobby)
    lobby.release(idle, 100.0)
    lobby._lock.acquire()

    lobby.forget()

    assert lobby.counts() == Counts()
    assert (idle.is_cut, active.is_cut) == (True, True)


def test_expired_connections_are_closed_at_the_next_call():
    lobby = Lobby()
    connection = entered(lobby)
    lobby.release(connection, 5.0)

    _, taken, _ = lobby.enter(ROUTE, 6.0, None)

    assert (taken, connection.sock.fileno()) == (None, -1)


def test_connection_left_alone_is_closed_when_another_origin_is_called():
    lobby = Lobby()
    connection = entered(lobby)
    lobby.release(connection, 5.0)

    lobby.enter(a_route("b.example"), 1000.0, None)

    assert connection.sock.fileno() == -1


def test_what_was_left_for_a_thread_is_done_though_that_is_interrupted():
    """Ctrl-C in the main thread must not keep what others gave back meanwhile from who waits."""

    class Interrupted:
        @property
        def life(self) -> object:
            threads.submit(lobby.release, connection, None).result(5)  # finds the lock held
            raise KeyboardInterrupt

    lobby = Lobby()
    connection = entered(lobby)
    with ThreadPoolExecutor(1) as threads, pytest.raises(KeyboardInterrupt):
        lobby.enter(Interrupted(), 0.0, None)

    assert lobby._pools.counts == Counts(idle=1)
    lobby.close_idle()
