"""The pool's books, driven by events in any order."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smartclient.net.pool import Counts, Pool, Waiter
from smartclient.net.pools import Pools


def a_pool(*idle: str, limit: int = 3) -> Pool[str]:
    pool: Pool[str] = Pool(limit)
    for name in idle:
        assert pool.reserve()
        pool.fill(name)
    for name in idle:
        pool.release(name, 100.0)
    return pool


def a_waiter(woken: list[str], name: str = "w") -> Waiter[str]:
    return Waiter(lambda: woken.append(name))


def test_newest_idle_connection_is_taken_first():
    pool = a_pool("a", "b")

    assert [pool.take(0.0), pool.take(0.0), pool.take(0.0)] == ["b", "a", None]


def test_connection_released_as_last_resort_is_taken_last():
    pool = a_pool("a", "b")
    pool.take(0.0)

    pool.release("b", 100.0, last=False)

    assert pool.take(0.0) == "a"


def test_preferred_connection_is_taken_next():
    pool = a_pool("a", "b")

    pool.prefer("a")

    assert pool.take(0.0) == "a"


def test_places_end_at_the_limit():
    pool = a_pool("a", limit=2)

    assert (pool.reserve(), pool.reserve()) == (True, False)


@pytest.mark.parametrize("expires", [pytest.param(5.0, id="at"), pytest.param(4.0, id="after")])
def test_expired_connection_is_handed_out_for_closing_only(expires):
    pool = a_pool()
    pool.reserve()
    pool.fill("a")
    pool.release("a", expires)

    assert pool.take(5.0) is None
    assert pool.expired == ["a"]


def test_connection_without_expiry_stays():
    pool = a_pool()
    pool.reserve()
    pool.fill("a")
    pool.release("a", None)

    pool.expire(1e9)

    assert pool.take(1e9) == "a"


@pytest.mark.parametrize(
    "first", [pytest.param(None, id="for-ever"), pytest.param(60.0, id="late")]
)
def test_connection_expires_though_one_that_was_released_before_lives_longer(first):
    pool = a_pool("a", "b")
    for name, expires in zip((pool.take(0.0), pool.take(0.0)), (first, 5.0), strict=True):
        pool.release(name, expires)

    pool.expire(6.0)

    assert (pool.counts.idle, len(pool.expired)) == (1, 1)


def test_all_that_is_idle_expires_at_the_end_of_time():
    pool = a_pool("a")
    pool.release(pool.take(0.0), None)

    pool.expire(float("inf"))

    assert pool.expired == ["a"]


def test_released_connection_goes_to_the_one_who_waits_longest():
    woken: list[str] = []
    pool = a_pool("a", limit=1)
    pool.take(0.0)
    first, second = a_waiter(woken, "first"), a_waiter(woken, "second")
    pool.wait(first)
    pool.wait(second)

    pool.release("a", 100.0)

    assert (woken, first.connection, second.is_granted) == (["first"], "a", False)


def test_each_release_wakes_one_of_a_thousand_who_wait():
    """Elsewhere one release woke them all, and each walked the queue (pydantic/httpx2 PR#974)."""
    pool: Pool[int] = Pool(10)
    for connection in range(10):
        assert pool.reserve()
        pool.fill(connection)
    woken: list[int] = []
    for number in range(1000):
        pool.wait(Waiter(lambda number=number: woken.append(number)))

    for released in range(10):
        pool.release(released, None)
        assert woken == list(range(released + 1))

    assert pool.counts == Counts(active=10, queued=990)


def test_place_of_a_dead_connection_goes_to_a_waiter():
    woken: list[str] = []
    pool = a_pool("a", limit=1)
    pool.take(0.0)
    waiter = a_waiter(woken)
    pool.wait(waiter)

    pool.discard("a")

    assert (woken, waiter.is_granted, waiter.connection) == (["w"], True, None)
    assert pool.counts == Counts(idle=0, active=1, queued=0)


def test_grant_to_one_who_left_goes_to_the_next():
    woken: list[str] = []
    pool = a_pool("a", limit=1)
    pool.take(0.0)
    leaver, next_one = a_waiter(woken, "leaver"), a_waiter(woken, "next")
    pool.wait(leaver)
    pool.wait(next_one)
    pool.release("a", 100.0)

    pool.leave(leaver)

    assert (woken, next_one.connection) == (["leaver", "next"], "a")


def test_connection_that_died_between_grant_and_leaving_is_not_kept():
    pool = a_pool("a", limit=1)
    pool.take(0.0)
    waiter = a_waiter([])
    pool.wait(waiter)
    pool.release("a", 100.0)
    pool.discard("a")

    pool.leave(waiter)

    assert pool.counts == Counts()


def test_dead_connection_keeps_its_place_for_whoever_found_it_dead():
    pool = a_pool("a", limit=1)
    pool.take(0.0)

    assert pool.swap("a", 0.0) is None
    assert pool.counts == Counts(active=1)


def test_sweep_looks_at_every_pool_but_not_at_every_call():
    pools: Pools[str] = Pools()
    for key in ("x", "y"):
        pool = pools.get(key)
        pool.reserve()
        pool.fill(key)
        pool.release(key, 5.0)
    pools.sweep(1.0)

    assert pools.sweep(1.0 + Pools.SWEEP / 2) == []
    assert pools.sweep(1.0 + Pools.SWEEP) == ["x", "y"]
    assert pools.by_key == {}


class Books(RuleBasedStateMachine):
    """Callers take, wait, give up, release and break connections in any order."""

    LIMIT = 3

    def __init__(self) -> None:
        super().__init__()
        self.pool: Pool[int] = Pool(self.LIMIT)
        self.next = 0
        self.now = 0.0
        self.held: list[int] = []
        self.places = 0
        self.waiting: list[Waiter[int]] = []
        self.woken: list[Waiter[int]] = []
        self.opened: set[int] = set()
        self.closed: set[int] = set()

    @rule()
    def call(self) -> None:
        connection = self.pool.take(self.now)
        if connection is not None:
            self.held.append(connection)
        elif self.pool.reserve():
            self.places += 1
        else:
            waiter: Waiter[int] = Waiter(lambda: self.woken.append(waiter))
            self.waiting.append(waiter)
            self.pool.wait(waiter)

    @precondition(lambda self: self.places)
    @rule(succeeds=st.booleans())
    def open(self, succeeds: bool) -> None:
        self.places -= 1
        if succeeds:
            self.next += 1
            self.opened.add(self.next)
            self.pool.fill(self.next)
            self.held.append(self.next)
        else:
            self.pool.vacate()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), lasts=st.sampled_from([1.0, 5.0, None]), last=st.booleans())
    def release(self, data: st.DataObject, lasts: float | None, last: bool) -> None:
        connection = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.pool.release(connection, None if lasts is None else self.now + lasts, last=last)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def break_active(self, data: st.DataObject) -> None:
        connection = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.pool.discard(connection)
        self.pool.discard(connection)
        self.closed.add(connection)

    @precondition(lambda self: self.pool.idle)
    @rule(data=st.data())
    def break_idle(self, data: st.DataObject) -> None:
        connection = data.draw(st.sampled_from(list(self.pool.idle)))
        self.pool.discard(connection)
        self.closed.add(connection)

    @precondition(lambda self: self.held)
    @rule()
    def find_dead(self) -> None:
        dead = self.held.pop()
        self.closed.add(dead)
        other = self.pool.swap(dead, self.now)
        if other is None:
            self.places += 1
        else:
            self.held.append(other)

    @precondition(lambda self: self.woken)
    @rule()
    def resume(self) -> None:
        waiter = self.woken.pop(0)
        self.waiting.remove(waiter)
        if waiter.connection is None:
            self.places += 1
        else:
            self.held.append(waiter.connection)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        waiter = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        self.woken = [other for other in self.woken if other is not waiter]
        self.pool.leave(waiter)

    @rule(seconds=st.sampled_from([0.5, 2.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.pool.expire(self.now)

    @invariant()
    def nothing_is_lost_or_held_twice(self) -> None:
        self.closed.update(self.pool.expired)
        self.pool.expired.clear()
        granted = [w.connection for w in self.woken if w.connection is not None]
        where = [*self.held, *granted, *self.pool.idle, *self.closed]
        assert sorted(where) == sorted(self.opened)
        assert self.pool.active == {*self.held, *granted}
        assert self.pool.opening == self.places + sum(w.connection is None for w in self.woken)

    @invariant()
    def the_limit_holds(self) -> None:
        idle, active, _ = self.pool.counts
        assert idle + active <= self.LIMIT

    @invariant()
    def nobody_waits_beside_a_free_place(self) -> None:
        idle, active, queued = self.pool.counts
        assert not queued or (idle == 0 and active == self.LIMIT)
        assert queued == len(self.waiting) - len(self.woken)


TestBooks = Books.TestCase
