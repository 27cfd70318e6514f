"""A client's own limit beside its pool's, driven by events in any order."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smartclient.net import stats
from smartclient.net.limits import Limiter, Place, free_place, time_left
from smartclient.net.options import MOST_CONNECTIONS, NetOptions
from smartclient.net.pool import Counts, Pool, Waiter
from smartclient.net.pools import Pools
from tests.end_to_end.net_sides import a_call

CALL = a_call("http://a.example/v1/messages")


def a_place() -> Place:
    return Place(CALL)


def limited(limit: int) -> tuple[Pools[int], Limiter, list[Place]]:
    """Pools in which the client `a` holds all of its places on one way."""
    pools, places = Pools[int](), [a_place() for _ in range(limit)]
    assert all(pools.admit(place, "way", "a", limit) for place in places)
    return pools, places[0].pool, places


def test_a_client_takes_as_many_places_as_it_allows_itself():
    pools, limiter, _ = limited(2)

    assert not pools.admit(a_place(), "way", "a", 2)
    assert limiter.counts == Counts(active=2)


@pytest.mark.parametrize(("owner", "way"), [("b", "way"), ("a", "other way")])
def test_another_client_or_way_has_places_of_its_own(owner, way):
    pools, _, _ = limited(2)

    assert pools.admit(a_place(), way, owner, 2)


def test_each_place_that_is_left_wakes_the_one_who_waits_longest():
    _, limiter, places = limited(10)
    woken: list[int] = []
    for number in range(1000):
        limiter.wait(Waiter(lambda number=number: woken.append(number)))

    for number, place in enumerate(places):
        place.free()
        assert woken == list(range(number + 1))


def test_place_that_is_left_twice_is_left_once():
    _, limiter, (place, _) = limited(2)

    place.free()
    place.free()

    assert limiter.counts == Counts(active=1)


def test_what_carried_a_call_holds_no_place_after_it():
    class Carrier:
        place = limited(1)[2][0]

    carrier, limiter = Carrier(), Carrier.place.pool
    free_place(carrier)
    free_place(carrier)

    assert (carrier.place, limiter.counts) == (None, Counts())


def test_larger_limit_raises_the_pools_and_a_smaller_one_leaves_it():
    pools: Pools[int] = Pools()
    pool = pools.get("way")

    pools.admit(a_place(), "way", "a", 5000)
    pools.admit(a_place(), "way", "b", 3)

    assert (MOST_CONNECTIONS, pool.limit) == (1000, 5000)


def test_raised_limit_serves_those_who_wait():
    pool: Pool[int] = Pool(1)
    pool.reserve()
    waiters = [Waiter[int](lambda: None) for _ in range(3)]
    for waiter in waiters:
        pool.wait(waiter)

    pool.allow(3)

    assert [waiter.is_granted for waiter in waiters] == [True, True, False]


def test_limit_that_nobody_uses_is_forgotten():
    pools, _, (place,) = limited(1)

    pools.expire(0.0)
    assert len(pools.limiters) == 1
    place.free()
    pools.expire(0.0)

    assert pools.limiters == {}


def test_client_that_leaves_has_its_own_waiting_calls_sent_away_only():
    pools, limiter, _ = limited(1)
    woken: list[str] = []
    limiter.wait(Waiter(lambda: woken.append("a"), "a"))
    pools.get("way").wait(Waiter(lambda: woken.append("a in the pool"), "a"))
    pools.get("way").wait(Waiter(lambda: woken.append("b"), "b"))

    pools.send_away("a")

    assert (woken, limiter.counts.queued) == (["a", "a in the pool"], 0)
    assert pools.counts == Counts(queued=1)


def test_calls_that_wait_for_a_place_are_counted_as_queued(monkeypatch):
    monkeypatch.setattr(stats._Watched, "pools", [])
    pools, limiter, _ = limited(1)
    stats.watch(pools)

    limiter.wait(Waiter(lambda: None))

    assert pools.counts == Counts(queued=1)
    assert (stats.pool_stats().queued, stats.pool_stats().open) == (1, 0)


@pytest.mark.parametrize(("limit", "own"), [(1000, None), (2, 2), (5000, 5000)])
def test_only_another_limit_than_the_usual_is_a_clients_own(limit, own):
    assert NetOptions(max_connections=limit).own_limit == own


@pytest.mark.parametrize(("timeout", "left"), [(2.0, 1.5), (0.1, 0.0), (None, None)])
def test_time_that_went_by_for_a_place_is_none_for_a_connection(timeout, left):
    assert time_left(timeout, 0.5) == left


class _Call:
    """One of `owner`; with a place when it has one, and where it stands."""

    def __init__(self, number: int, owner: str) -> None:
        self.number, self.owner = number, owner
        self.place: Place | None = None
        self.waiter: Waiter[object] | None = None
        self.is_woken = False
        self.stage = "new"
        self.connection = 0


class Books(RuleBasedStateMachine):
    """Calls of a client with a limit and of one without share a pool, in any order."""

    LIMIT, OWN = 4, 2

    def __init__(self) -> None:
        super().__init__()
        self.pools: Pools[int] = Pools()
        self.pool = self.pools.by_key["way"] = Pool[int](self.LIMIT)
        self.calls: list[_Call] = []
        self.number = 0

    def at(self, *stages: str) -> list[_Call]:
        return [call for call in self.calls if call.stage in stages]

    def drawn(self, data: st.DataObject, *stages: str) -> _Call:
        return data.draw(st.sampled_from(self.at(*stages)))

    def queue(self, call: _Call, pool: Pool, stage: str) -> None:
        def wake() -> None:
            call.is_woken = True

        call.waiter, call.is_woken, call.stage = Waiter(wake, call.owner), False, stage
        pool.wait(call.waiter)

    def enter(self, call: _Call) -> None:
        connection = self.pool.take(0.0)
        if connection is not None:
            call.stage, call.connection = "active", connection
        elif self.pool.reserve():
            call.stage = "opening"
        else:
            self.queue(call, self.pool, "queued")

    def end(self, call: _Call, times: int = 1) -> None:
        self.calls.remove(call)
        for _ in range(times):
            if call.place is not None and call.stage != "held back":
                call.place.free()

    @rule(owner=st.sampled_from("ab"))
    def call(self, owner: str) -> None:
        self.number += 1
        call = _Call(self.number, owner)
        self.calls.append(call)
        if owner == "a":
            call.place = a_place()
            if not self.pools.admit(call.place, "way", owner, self.OWN):
                self.queue(call, call.place.pool, "held back")
                return
        self.enter(call)

    @precondition(lambda self: any(call.is_woken for call in self.at("held back", "queued")))
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        woken = [call for call in self.at("held back", "queued") if call.is_woken]
        call = data.draw(st.sampled_from(woken))
        if call.stage == "held back":
            call.place.pool.fill(call.place)
            self.enter(call)
        elif call.waiter.connection is None:
            call.stage = "opening"
        else:
            call.stage, call.connection = "active", call.waiter.connection

    @precondition(lambda self: self.at("held back", "queued"))
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        call = self.drawn(data, "held back", "queued")
        (call.place.pool if call.stage == "held back" else self.pool).leave(call.waiter)
        self.end(call)

    @precondition(lambda self: self.at("opening"))
    @rule(data=st.data(), succeeds=st.booleans())
    def open(self, data: st.DataObject, succeeds: bool) -> None:
        call = self.drawn(data, "opening")
        if succeeds:
            call.stage, call.connection = "active", 1000 + call.number
            self.pool.fill(call.connection)
        else:
            self.pool.vacate()
            self.end(call)

    @precondition(lambda self: self.at("active"))
    @rule(data=st.data(), is_kept=st.booleans())
    def finish(self, data: st.DataObject, is_kept: bool) -> None:
        call = self.drawn(data, "active")
        if is_kept:
            self.pool.release(call.connection, None)
            self.end(call)
        else:
            self.pool.discard(call.connection)
            self.end(call, times=2)

    @invariant()
    def nothing_is_lost(self) -> None:
        limiter = self.pools.limiters.get(("a", "way"), Limiter(self.OWN))
        held_back = self.at("held back")
        num_in = sum(call.owner == "a" for call in self.at("queued", "opening", "active"))
        assert limiter.counts.active == num_in + sum(call.is_woken for call in held_back)
        assert limiter.counts.queued == sum(not call.is_woken for call in held_back)

    @invariant()
    def the_limit_holds_and_nobody_waits_beside_a_free_place(self) -> None:
        for limiter in self.pools.limiters.values():
            assert limiter.counts.active <= self.OWN
            assert not limiter.counts.queued or limiter.counts.active == self.OWN
        idle, active, queued = self.pool.counts
        assert not queued or (idle == 0 and active == self.LIMIT)

    @invariant()
    def first_in_is_first_out(self) -> None:
        held_back = self.at("held back")
        woken = [call.number for call in held_back if call.is_woken]
        waiting = [call.number for call in held_back if not call.is_woken]
        assert max(woken, default=0) < min(waiting, default=self.number + 1)


TestBooks = Books.TestCase
