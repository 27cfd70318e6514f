"""What a store must still be told is kept, told once it can be, and given up in the end."""

from __future__ import annotations

import os
import threading

import pytest

from smartclient.stores import StoreError
from smartclient.stores.owed import Owed


class Told:
    """A store that is away until it is back."""

    def __init__(self):
        self.is_away, self.items, self.tried = True, [], threading.Semaphore(0)
        self.has_all = threading.Event()

    def __call__(self, item):
        self.tried.release()
        if self.is_away:
            raise StoreError("away")
        self.items.append(item)
        if item == "last":
            self.has_all.set()


@pytest.fixture
def told():
    return Told()


def test_what_is_owed_is_told_in_order_once_it_can_be(told):
    owed = Owed(told, keep=60)
    for item in ("first", "second", "last"):
        owed.add(item)
    assert told.tried.acquire(timeout=10)

    told.is_away = False
    owed.hurry()

    assert told.has_all.wait(10)
    assert owed.flush()
    assert told.items == ["first", "second", "last"]


def test_it_is_tried_again_without_being_hurried(told):
    owed = Owed(told, keep=60)
    owed.add("last")
    assert all(told.tried.acquire(timeout=10) for _ in range(3))

    told.is_away = False

    assert told.has_all.wait(10)


def test_a_flush_says_whether_something_is_left(told):
    owed = Owed(told, keep=60)
    owed.add("last")

    assert (owed.flush(), len(owed)) == (False, 1)
    told.is_away = False
    assert (owed.flush(), len(owed)) == (True, 0)


def test_what_was_kept_for_too_long_is_given_up_with_a_word(told, caplog):
    owed = Owed(told, keep=0.000_001)
    owed.add("last")
    told.is_away = False

    assert owed.flush()
    assert told.items == []
    assert "never will be" in caplog.text


def test_the_oldest_is_given_up_when_too_much_is_owed(told, caplog):
    owed = Owed(told, keep=60, most=2)
    for item in ("first", "second", "last"):
        owed.add(item)

    told.is_away = False

    assert owed.flush()
    assert told.items == ["second", "last"]
    assert "2 others wait" in caplog.text


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_owes_nothing(told):
    owed = Owed(told, keep=60)
    owed.add("last")

    child = os.fork()
    if child == 0:
        os._exit(len(owed))
    _, status = os.waitpid(child, 0)

    assert status == 0
    told.is_away = False
    assert owed.flush()
