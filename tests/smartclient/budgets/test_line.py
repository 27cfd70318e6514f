"""First come, first served."""

from __future__ import annotations

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
