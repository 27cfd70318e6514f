"""The pool's books where a connection carries several calls, driven by events in any order."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smartclient.net.pool import Counts, Pool, Sharing, Waiter


def a_pool(*, room: int | None = 3, limit: int = 10, is_shared: bool | None = True) -> Pool[str]:
    """With one call on the connection `a`, where there is room for `room`."""
    pool: Pool[str] = Pool(limit, Sharing(is_shared))
    assert pool.reserve()
    pool.fill("a", room)
    return pool


def waiters_of(pool: Pool[str], number: int) -> list[Waiter[str]]:
    waiters = [Waiter[str](lambda: None) for _ in range(number)]
    for waiter in waiters:
        pool.wait(waiter)
    return waiters


def granted(waiters: list[Waiter[str]]) -> list[str | None]:
    return [waiter.connection for waiter in waiters if waiter.is_granted]


def test_calls_join_a_connection_until_it_is_full():
    pool = a_pool(room=3)

    assert [pool.take(0.0), pool.take(0.0), pool.take(0.0)] == ["a", "a", None]
    assert pool.counts == Counts(active=3)


def test_connection_is_idle_when_its_last_call_has_left():
    pool = a_pool()
    pool.take(0.0)

    pool.release("a", 5.0)
    assert pool.counts == Counts(active=1)
    pool.release("a", 6.0)

    assert (pool.counts, pool.idle) == (Counts(idle=1), {"a": 6.0})


def test_room_used_last_is_taken_first():
    pool = a_pool(room=2)
    pool.reserve()
    pool.fill("b", 2)

    assert pool.take(0.0) == "b"


def test_room_is_preferred_to_an_idle_connection():
    pool = a_pool(room=2)
    pool.reserve()
    pool.fill("b", 2)
    pool.release("b", None)

    assert pool.take(0.0) == "a"


def test_each_call_counts_against_the_limit():
    pool = a_pool(room=5, limit=3)
    pool.take(0.0)
    pool.take(0.0)

    assert (pool.take(0.0), pool.reserve()) == (None, False)


@pytest.mark.parametrize("is_shared", [pytest.param(None, id="unknown"), True])
def test_cold_burst_waits_for_what_the_first_connection_turns_out_to_be(is_shared):
    pool: Pool[str] = Pool(100, Sharing(is_shared))

    assert (pool.take(0.0), pool.reserve(), pool.reserve()) == (None, True, False)


def test_shared_connection_takes_in_all_who_wait_and_fit():
    pool: Pool[str] = Pool(100, Sharing(None))
    pool.reserve()
    waiters = waiters_of(pool, 4)

    pool.fill("a", 3)

    assert granted(waiters) == ["a", "a", None]  # and one opens another
    assert pool.sharing.is_shared


def test_unshared_connection_lets_all_who_wait_open_their_own():
    pool: Pool[str] = Pool(100, Sharing(None))
    pool.reserve()
    waiters = waiters_of(pool, 4)

    pool.fill("a")

    assert granted(waiters) == [None] * 4
    assert pool.reserve()  # and the next burst is not held back


def test_opening_that_fails_lets_one_of_those_who_wait_try():
    pool: Pool[str] = Pool(100, Sharing(None))
    pool.reserve()
    waiters = waiters_of(pool, 3)

    pool.vacate()

    assert granted(waiters) == [None]


def test_burst_too_large_for_one_connection_opens_another_meanwhile():
    pool: Pool[str] = Pool(1000, Sharing(True))
    pool.sharing.room = 3
    opened = []
    for _ in range(7):
        opened.append(pool.reserve())
        if not opened[-1]:
            waiters_of(pool, 1)

    assert opened == [True, False, False, True, False, False, True]


def test_lowered_room_is_not_filled_again_before_calls_have_left():
    pool = a_pool(room=3)
    pool.take(0.0)
    pool.take(0.0)

    pool.resize("a", 1)
    pool.release("a", None)
    pool.release("a", None)

    assert (pool.take(0.0), pool.counts) == (None, Counts(active=1))


def test_lowered_room_is_not_given_to_who_waits():
    pool = a_pool(room=2, limit=2)
    pool.take(0.0)
    waiters = waiters_of(pool, 1)

    pool.resize("a", 1)
    pool.release("a", None)

    assert granted(waiters) == [None]  # a place to open another


def test_raised_room_is_given_to_who_waits():
    pool = a_pool(room=1)
    pool.sharing.room = 5
    pool.reserve()
    waiters = waiters_of(pool, 1)

    pool.resize("a", 2)

    assert granted(waiters) == ["a"]


def test_used_up_connection_leaves_with_its_last_call():
    pool = a_pool()
    pool.resize("a", 0)

    assert pool.take(0.0) is None
    pool.release("a", None)

    assert (pool.counts, pool.expired) == (Counts(), ["a"])


def test_idle_connection_that_is_used_up_is_handed_out_for_closing():
    pool = a_pool()
    pool.release("a", None)

    pool.resize("a", 0)

    assert (pool.counts, pool.expired, pool.take(0.0)) == (Counts(), ["a"], None)


def test_dead_connection_gives_back_the_places_of_all_its_calls():
    pool = a_pool(room=3, limit=3)
    pool.take(0.0)
    pool.take(0.0)
    waiters = waiters_of(pool, 2)

    pool.discard("a")
    pool.discard("a")

    # One opens a connection, for which the other waits.
    assert (granted(waiters), pool.counts) == ([None], Counts(active=1, queued=1))


def test_grant_to_one_who_left_expires_like_the_last_call_on_it():
    pool = a_pool(room=2)
    pool.take(0.0)
    pool.sharing.room = 1
    waiter = Waiter[str](lambda: None)
    pool.wait(waiter)
    pool.release("a", 7.0)
    pool.release("a", 8.0)

    pool.leave(waiter)

    assert pool.idle == {"a": 8.0}


def test_connection_that_carries_nothing_more_is_not_offered_again():
    """Its end is known to the first who looks, a turn of the loop before the pool hears of it."""
    pool = a_pool()
    pool.take(0.0)

    assert pool.swap("a", 0.0) is None
    assert pool.take(0.0) is None
    assert pool.counts == Counts(active=2)  # the other call on it, and the place that is held


class Books(RuleBasedStateMachine):
    """Callers share connections, and servers change their minds, in any order."""

    LIMIT = 5

    def __init__(self) -> None:
        super().__init__()
        self.pool: Pool[int] = Pool(self.LIMIT, Sharing(None))
        self.pool.sharing.room = 3
        self.next = 0
        self.now = 0.0
        self.held: list[int] = []  # once for each call
        self.room: dict[int, int] = {}
        self.places = 0
        self.waiting: list[Waiter[int]] = []
        self.woken: list[Waiter[int]] = []

    def granted(self) -> list[int]:
        found = [waiter.connection for waiter in self.woken]
        return [one for one in found if one is not None and one in self.pool.active]

    def given(self, connection: int) -> None:
        """A call was put on `connection`: there was room for it."""
        assert (self.held + self.granted()).count(connection) <= self.room[connection]

    @rule()
    def call(self) -> None:
        connection = self.pool.take(self.now)
        if connection is not None:
            self.held.append(connection)
            self.given(connection)
        elif self.pool.reserve():
            self.places += 1
        else:

            def wake() -> None:
                self.woken.append(waiter)
                if waiter.connection is not None:
                    self.given(waiter.connection)

            waiter: Waiter[int] = Waiter(wake)
            self.waiting.append(waiter)
            self.pool.wait(waiter)

    @precondition(lambda self: self.places)
    @rule(room=st.sampled_from([None, 1, 2, 4]))
    def open(self, room: int | None) -> None:
        self.places -= 1
        self.next += 1
        self.room[self.next] = room or 1
        self.held.append(self.next)
        self.pool.fill(self.next, room)

    @precondition(lambda self: self.places)
    @rule()
    def fail_to_open(self) -> None:
        self.places -= 1
        self.pool.vacate()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), lasts=st.sampled_from([1.0, 5.0]))
    def release(self, data: st.DataObject, lasts: float) -> None:
        connection = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.pool.release(connection, self.now + lasts)

    @precondition(lambda self: self.room)
    @rule(data=st.data(), room=st.integers(0, 4))
    def resize(self, data: st.DataObject, room: int) -> None:
        connection = data.draw(st.sampled_from(list(self.room)))
        if connection in self.pool._rooms:
            self.room[connection] = room
        self.pool.resize(connection, room)

    @precondition(lambda self: self.pool.active or self.pool.idle)
    @rule(data=st.data())
    def break_one(self, data: st.DataObject) -> None:
        connection = data.draw(st.sampled_from([*self.pool.active, *self.pool.idle]))
        self.held = [one for one in self.held if one != connection]
        self.pool.discard(connection)
        self.pool.discard(connection)

    @precondition(lambda self: self.held)
    @rule()
    def find_unfit(self) -> None:
        unfit = self.held.pop()
        other = self.pool.swap(unfit, self.now)
        if other is None:
            self.places += 1
        else:
            self.held.append(other)
        assert other != unfit
        if unfit in self.pool._rooms:
            self.room[unfit] = 0

    @precondition(lambda self: self.woken)
    @rule()
    def resume(self) -> None:
        waiter = self.woken.pop(0)
        self.waiting.remove(waiter)
        if waiter.connection is None:
            self.places += 1
        elif waiter.connection in self.pool.active:
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
    def every_call_is_counted_once(self) -> None:
        self.pool.expired.clear()
        in_flight = [*self.held, *self.granted()]
        assert self.pool.active == set(in_flight)
        opening = self.places + sum(w.connection is None for w in self.woken)
        assert self.pool.opening == opening
        assert self.pool.counts.active == len(in_flight) + opening

    @invariant()
    def the_limit_holds(self) -> None:
        idle, active, _ = self.pool.counts
        assert idle + active <= self.LIMIT

    @invariant()
    def roomy_is_what_has_room(self) -> None:
        in_flight = [*self.held, *self.granted()]
        shared = self.pool._rooms.keys() & self.pool.active
        assert set(self.pool.roomy) == {
            one for one in shared if in_flight.count(one) < self.room[one]
        }

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        idle, active, queued = self.pool.counts
        if queued and idle + active < self.LIMIT:
            assert not self.pool.roomy
            assert self.pool.opening
            assert self.pool.sharing.is_shared is not False
        assert not queued or not idle


TestBooks = Books.TestCase
