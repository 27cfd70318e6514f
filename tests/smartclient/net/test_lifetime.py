"""When a connection is too old."""

from __future__ import annotations

import pytest

from smartclient.net import lifetime
from smartclient.net.lifetime import LEAST_IDLE, REMEMBERED, Aging, Lifetime, holders
from smartclient.net.options import NetOptions


@pytest.fixture
def at(monkeypatch):
    """Sets the time of connections."""
    return lambda now: monkeypatch.setattr(lifetime, "REAL", lambda: now)


def test_nothing_is_learned_from_nothing():
    assert Lifetime().bound(0.0, 60.0) == 60.0


def test_a_moment_is_named_where_there_is_a_limit():
    assert [Lifetime().until(100.0, own) for own in (60.0, None)] == [160.0, None]


def test_a_server_that_closes_sooner_is_remembered_for_a_while():
    life = Lifetime()

    life.ended(10.0, 100.0)

    assert life.bound(100.0, 60.0) == life.bound(100.0, None) == 8.0
    assert life.bound(100.0, 5.0) == 5.0
    assert life.bound(100.0 + REMEMBERED, 60.0) == 60.0


def test_the_shortest_life_counts():
    life = Lifetime()
    for idle in (10.0, 5.0, 20.0):
        life.ended(idle, 100.0)

    assert life.bound(100.0, 60.0) == 4.0


@pytest.mark.parametrize(("idle", "bound"), [(LEAST_IDLE / 2, 60.0), (LEAST_IDLE, LEAST_IDLE)])
def test_a_restart_teaches_little(idle, bound):
    life = Lifetime()

    life.ended(idle, 100.0)

    assert life.bound(100.0, 60.0) == bound


def test_a_connection_is_worn_by_age(at):
    connection = Aging()
    at(100.0)
    connection.begin_life(NetOptions(max_age=50.0))

    assert [connection.is_worn(now) for now in (149.9, 150.0)] == [False, True]


@pytest.mark.parametrize(
    ("max_age", "expires", "until"),
    [(50.0, 120.0, 120.0), (50.0, 160.0, 150.0), (50.0, None, 150.0), (None, None, None)],
)
def test_a_connection_lies_idle_to_the_end_of_its_life_at_most(at, max_age, expires, until):
    connection = Aging()
    at(100.0)
    connection.begin_life(NetOptions(max_age=max_age))

    assert connection.idle_until(expires) == until


def test_a_connection_is_worn_by_calls(at):
    connection = Aging()
    connection.begin_life(NetOptions(max_age=None, max_requests=2))

    worn = []
    for connection.num_exchanges in (1, 2):
        worn.append(connection.is_worn(1e9))

    assert worn == [False, True]


def test_holders_are_named_the_longest_first(at):
    at(100.0)
    connections = [Aging() for _ in range(5)]
    for number, connection in enumerate(connections[:4]):
        connection.held = "POST", f"/v1/{number}?key=secret", 90.0 + number

    assert holders(connections) == [f"POST /v1/{n} for {10.0 - n:.1f} s" for n in range(3)]
