"""First come, first served."""

from __future__ import annotations

import os

import pytest

from smartclient.budgets.line import Line


def test_the_first_to_come_is_the_first():
    line = Line()
    first, second = line.join(), line.join()

    assert line.is_first(first)
    assert not line.is_first(second)


def test_whoever_leaves_lets_the_next_one_know():
    line = Line()
    first, second = line.join(), line.join()

    line.leave(first)

    assert line.is_first(second)
    assert second.is_set


def test_leaving_from_the_middle_skips_nobody():
    line = Line()
    first, second, third = line.join(), line.join(), line.join()

    line.leave(second)
    line.leave(first)

    assert line.is_first(third)
    assert third.is_set


def test_leaving_twice_does_no_harm():
    line = Line()
    ticket = line.join()

    line.leave(ticket)
    line.leave(ticket)

    assert not line.tickets
    assert not line.is_first(ticket)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_stand_behind_its_parents_calls():
    """They leave the line in their own process, so that nobody in the child would ever wake it."""
    line = Line()
    line.join()

    child = os.fork()
    if not child:
        is_free = not line.is_waited_in and line.is_first(line.join())
        os._exit(0 if is_free else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert line.is_waited_in
