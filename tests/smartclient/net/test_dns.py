"""Addresses of names: how often the system is asked, and what is used meanwhile."""

from __future__ import annotations

import socket
import threading

import pytest

from smartclient.net.dns import FAILED, FRESH, STALE, LookUp, Resolver, interleaved
from smartclient.testing import ManualClock

ONE = (socket.AF_INET, ("192.0.2.1", 80))
OTHER = (socket.AF_INET, ("192.0.2.2", 80))
SIX = (socket.AF_INET6, ("2001:db8::1", 80, 0, 0))
SEVEN = (socket.AF_INET6, ("2001:db8::2", 80, 0, 0))


class System:
    """The system's resolver: answers what it is told to, when it is let."""

    def __init__(self, *addresses) -> None:
        self.addresses, self.error, self.num_asked = list(addresses), None, 0
        self.gate = threading.Event()
        self.gate.set()
        self.clock = ManualClock()
        self.resolver = Resolver(self.look_up, self.clock.monotonic)

    def look_up(self, host, port, *, type):
        self.num_asked += 1
        assert self.gate.wait(5.0)
        if self.error is not None:
            raise self.error
        return [(family, type, 6, "", address) for family, address in self.addresses]

    def ask(self, host="a.example"):
        """What comes in the end."""
        answer = self.resolver.ask(host, 80)
        if isinstance(answer, LookUp):
            assert answer.wait(5.0)
            return answer.result()
        return answer

    def refreshed(self):
        """Wait for the look-ups that are on their way."""
        for running in list(self.resolver._running.values()):
            assert running.wait(5.0)


def test_a_fresh_answer_is_asked_for_once():
    system = System(ONE)

    assert [system.ask(), system.ask()] == [[ONE], [ONE]]
    assert system.num_asked == 1


def test_who_asks_at_the_same_time_shares_a_look_up():
    system = System(ONE)
    system.gate.clear()

    first, second = (system.resolver.ask("a.example", 80) for _ in range(2))
    system.gate.set()

    assert first is second
    assert (first.wait(5.0), system.num_asked) == (True, 1)


def test_an_older_answer_is_used_while_a_new_one_is_fetched():
    system = System(ONE)
    system.ask()
    system.addresses = [OTHER]
    system.clock.advance(FRESH)

    assert system.ask() == [ONE]
    system.refreshed()
    assert system.ask() == [OTHER]


def test_an_old_answer_is_never_used():
    system = System(ONE)
    system.ask()
    system.addresses = [OTHER]
    system.clock.advance(STALE)

    assert system.ask() == [OTHER]


def test_a_refresh_that_fails_leaves_the_answer_until_it_is_too_old():
    system = System(ONE)
    system.ask()
    system.error = socket.gaierror(-3, "try again")
    system.clock.advance(FRESH)

    assert system.ask() == [ONE]
    system.refreshed()
    assert system.ask() == [ONE]
    system.clock.advance(STALE)
    with pytest.raises(socket.gaierror):
        system.ask()


def test_a_failure_is_not_kept():
    system = System(ONE)
    system.error = socket.gaierror(-3, "try again")
    with pytest.raises(socket.gaierror):
        system.ask()
    system.error = None

    assert system.ask() == [ONE]


@pytest.mark.parametrize("error", [MemoryError(), None], ids=["breaks", "has-none"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_look_up_that_broke(error):
    system = System()
    system.error = error

    with pytest.raises(OSError, match="no address came"):
        system.ask()

    for thread in threading.enumerate():  # what it died of is told before this test ends
        if thread.name.startswith("look-up of"):
            thread.join(5.0)


def test_each_who_waits_is_given_an_error_of_its_own():
    system = System()
    system.error = socket.gaierror(-2, "unknown")
    running = system.resolver.ask("a.example", 80)
    assert running.wait(5.0)

    errors = []
    for _ in range(2):
        with pytest.raises(socket.gaierror) as caught:
            running.result()
        errors.append(caught.value)

    assert errors[0] is not errors[1]
    assert errors[0].args == errors[1].args == (-2, "unknown")


def test_an_address_that_failed_comes_last_for_a_while():
    system = System(ONE, OTHER)
    system.ask()

    system.resolver.failed(ONE)
    assert system.ask() == [OTHER, ONE]

    system.clock.advance(FAILED)
    system.ask()
    system.refreshed()
    assert system.ask() == [ONE, OTHER]


def test_many_names_do_not_pile_up():
    system = System(ONE)
    for number in range(20):
        system.ask(f"host-{number}.example")
        system.clock.advance(STALE / 4)

    assert len(system.resolver._answers) <= 5


def test_a_late_callback_is_called_at_once():
    system, called = System(ONE), []
    running = system.resolver.ask("a.example", 80)
    assert running.wait(5.0)

    running.notify(lambda: called.append(1))

    assert called == [1]


def test_a_forked_child_begins_anew():
    system = System(ONE)
    system.ask()
    system.resolver._lock.acquire()

    system.resolver.forget()

    assert system.ask() == [ONE]
    assert system.num_asked == 2


def test_families_take_turns_from_the_preferred_one_on():
    assert interleaved([SIX, SEVEN, SIX, ONE, OTHER]) == [SIX, ONE, SEVEN, OTHER]
    assert interleaved([ONE, OTHER, SIX]) == [ONE, SIX, OTHER]
