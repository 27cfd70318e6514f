"""Where a loop's connections live, and how they end with it."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref

import pytest

from smartclient.net import homes
from smartclient.net.homes import Home, all_homes, home_of_loop
from smartclient.net.options import REAL
from smartclient.net.pool import Counts
from smartclient.net.pools import Pools
from smartclient.net.streams import StreamConnection

from .ways import a_route

ROUTE = a_route()


async def entered(home: Home, owner: object = None) -> StreamConnection:
    """An active connection, whose peer is the test's to keep alive."""
    pool, connection = home.enter(ROUTE, 0.0)
    if connection is None:
        assert pool.reserve()
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        connection = StreamConnection(loop, ours, ROUTE.origin, pool, home.release)
        connection.peer = theirs  # closed with it
        await loop.create_connection(lambda: connection, sock=ours)
        pool.fill(connection)
    connection.owner = owner
    return connection


def test_each_loop_has_a_home_of_its_own_until_it_ends():
    async def scenario():
        home = await home_of_loop()
        assert await home_of_loop() is home
        return weakref.ref(asyncio.get_running_loop())

    others = set(all_homes())  # the one in the background, where tests before have used it

    first, second = asyncio.run(scenario()), asyncio.run(scenario())
    gc.collect()

    assert (first(), second(), set(all_homes())) == (None, None, others)


def test_loop_closed_without_its_generators_is_forgotten_at_the_next_call():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(home_of_loop())
    loop.close()

    asyncio.run(home_of_loop())

    assert loop not in all_homes()


def test_closed_loop_may_be_found_by_two_threads_at_once():
    class Raced(asyncio.SelectorEventLoop):
        def is_closed(self) -> bool:
            if asyncio._get_running_loop() is not self:
                homes._homes.pop(self, None)  # the other thread is faster
            return super().is_closed()

    loop = Raced()
    loop.run_until_complete(home_of_loop())
    loop.close()
    homes._homes[loop] = Home(loop)

    asyncio.run(home_of_loop())

    assert loop not in all_homes()


def test_end_of_the_loop_closes_idle_and_active_connections():
    found = []

    async def scenario():
        home = await home_of_loop()
        found.extend([await entered(home), await entered(home)])
        home.release(found[0], None)

    asyncio.run(scenario())

    for connection in found:
        assert connection.peer.recv(1) == b""
        connection.peer.close()


def test_idle_connections_expire_though_nobody_calls(monkeypatch):
    monkeypatch.setattr(Pools, "SWEEP", 0.01)

    async def scenario():
        home = await home_of_loop()
        connection = await entered(home)
        home.release(connection, REAL() - 1.0)
        await asyncio.sleep(0.05)
        assert (connection.is_cut, home.pools.counts) == (True, Counts())
        connection.peer.close()

    asyncio.run(scenario())


def test_expired_connection_is_closed_by_the_next_call():
    async def scenario():
        home = await home_of_loop()
        connection = await entered(home)
        home.release(connection, 5.0)
        _, taken = home.enter(ROUTE, 6.0)
        assert (taken, connection.is_cut) == (None, True)
        connection.peer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("owner", ["me", "you"])
def test_eviction_cuts_the_owners_connections_only(owner):
    async def scenario():
        home = await home_of_loop()
        connection = await entered(home, owner)
        home.evict("me")
        assert connection.is_cut is (owner == "me")
        connection.peer.close()

    asyncio.run(scenario())


def test_forgotten_connections_are_let_go_of_and_not_ended():
    async def scenario():
        home = await home_of_loop()
        connection = await entered(home)
        parents = connection._sock.dup()
        home.forget()
        connection.drop()
        connection.peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.peer.recv(1)
        parents.close()
        assert connection.peer.recv(1) == b""
        connection._transport.abort()
        connection.peer.close()

    asyncio.run(scenario())
