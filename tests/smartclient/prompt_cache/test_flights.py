"""Calls that write a prefix, and those that wait for it."""

from __future__ import annotations

import threading

from smartclient._latch import Latch
from smartclient.prompt_cache.flights import Flight, Flights


def test_the_first_call_leads_and_the_next_waits_for_it():
    flights = Flights()
    leader = flights.board([b"ab", b"a"], [b"a"])

    waited_for = flights.board([b"ac", b"a"], [b"a"])

    assert isinstance(leader, Flight)
    assert waited_for is leader.landed


def test_a_call_that_shares_nothing_leads_too():
    flights = Flights()
    flights.board([b"a"], [b"a"])

    assert isinstance(flights.board([b"b"], [b"b"]), Flight)


def test_who_waits_goes_on_once_the_leader_has_landed():
    flights = Flights()
    leader = flights.board([b"a"], [b"a"])
    latch = flights.board([b"a"], [b"a"])

    leader.land()

    assert isinstance(latch, Latch)
    assert latch.is_set
    assert isinstance(flights.board([b"a"], [b"a"]), Flight)


def test_landing_twice_takes_no_other_flight_away():
    flights = Flights()
    first = flights.board([b"a"], [b"a"])
    first.land()
    second = flights.board([b"a"], [b"a"])

    first.land()

    assert flights.board([b"a"], [b"a"]) is second.landed


def test_nothing_is_kept_of_what_has_landed():
    flights = Flights()
    for number in range(10):
        flights.board([number], [number, b"x"]).land()

    assert len(flights) == 0


def test_of_many_threads_one_leads():
    flights, gate, found = Flights(), threading.Barrier(8), []

    def run():
        gate.wait()
        found.append(flights.board([b"a"], [b"a"]))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(isinstance(one, Flight) for one in found) == 1
