"""The pools behind their lock."""

from __future__ import annotations

import socket

from smartclient.net.lobby import Lobby
from smartclient.net.pool import Counts
from smartclient.net.sockets import SocketConnection

from .ways import a_route

ROUTE = a_route(max_connections=2)


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

    with lobby._lock:
        lobby.abandon(connection)
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

    assert (mine.is_cut, other.is_cut) == (True, False)
    assert lobby.counts().active == 1
    other.cut()


def test_client_that_is_collected_inside_the_lock_leaves_once_it_is_free():
    """An SDK's client closes itself in a finalizer, which may run wherever memory is taken."""
    lobby = Lobby()
    connection = entered(lobby, "me")

    with lobby._lock:
        lobby.evict("me")
        was_cut = connection.is_cut
    lobby._reclaim()

    assert (was_cut, connection.is_cut, lobby.counts()) == (False, True, Counts())


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
