"""A call that waits for room."""

from __future__ import annotations

import msgspec
import pytest

from smartclient import BudgetExceededError
from smartclient._call import Timeout
from smartclient._flow import Ask, Park, Sleep
from smartclient.budgets import Budget
from tests.smartclient.budgets.spending import (
    FailingStore,
    Spending,
    a_budgeted_call,
    kinds,
    spent,
)


def waiting(**given):
    return Budget(**{"tokens": 100, "on_limit": "wait"} | given)


class Waiting(Spending):
    """Whose latches open by what a test does meanwhile."""

    def __init__(self, *budgets, meanwhile=()) -> None:
        super().__init__(*budgets)
        self.meanwhile = list(meanwhile)

    def perform(self, effect):
        if isinstance(effect, Park) and self.meanwhile:
            self.meanwhile.pop(0)()
        return super().perform(effect)


def parks(spending):
    return [effect for effect in spending.asked if isinstance(effect, Park)]


def test_a_call_waits_until_another_lets_go():
    budget = waiting()
    spending = Waiting(budget)
    first = spending.begin()
    spending.meanwhile.append(lambda: spending.end(first, used=7))

    second = spending.begin()
    spending.end(second, used=8)

    assert len(parks(spending)) == 1
    assert spent(budget) == (15, 0)


def test_nothing_is_missed_between_the_refusal_and_the_wait():
    """The latch is taken before the store is asked."""
    spending = Waiting(waiting())
    first = spending.begin()
    flow = spending.flow(a_budgeted_call())

    effect = next(flow)
    while not isinstance(effect, Park):
        effect = spending.send(flow, effect)
    spending.end(first, used=1)

    assert effect.latch.is_set


def test_where_nobody_can_let_go_the_end_of_the_window_is_waited_for():
    spending = Waiting(waiting(per="minute"))
    spending.call(used=90)

    spending.begin()

    assert [one for one in spending.asked if isinstance(one, Sleep)] == [Sleep(60.0)]


def test_without_a_window_a_wait_for_nobody_is_refused_at_once():
    spending = Waiting(waiting())
    spending.call(used=90)

    with pytest.raises(BudgetExceededError):
        spending.begin()

    assert not {"Park", "Sleep"} & set(kinds(spending.asked))


def test_a_window_that_ends_too_late_is_not_waited_for():
    spending = Waiting(waiting(per="hour", max_wait=3599.0))
    spending.call(used=90)

    with pytest.raises(BudgetExceededError):
        spending.begin()

    assert not spending.clock.slept


def test_a_wait_ends_after_its_time():
    spending = Waiting(waiting(max_wait=5.0))
    spending.begin()

    with pytest.raises(BudgetExceededError, match=r"after 5\.0 s"):
        spending.begin()

    assert [park.timeout for park in parks(spending)] == [5.0]


def test_a_wait_ends_with_the_time_of_its_call():
    spending = Waiting(waiting(max_wait=50.0))
    spending.begin()
    call = msgspec.structs.replace(a_budgeted_call(), timeout=Timeout(total=3.0))

    with pytest.raises(BudgetExceededError):
        spending.begin(call)

    assert [park.timeout for park in parks(spending)] == [3.0]


def test_a_wait_without_a_limit_is_for_ever():
    spending = Waiting(waiting())
    first = spending.begin()
    spending.meanwhile.append(lambda: spending.end(first, used=1))

    spending.begin()

    assert parks(spending)[0].timeout is None


def test_what_can_never_fit_does_not_wait():
    with pytest.raises(BudgetExceededError, match="can never fit"):
        Waiting(waiting(per="minute")).begin(a_budgeted_call(max_tokens=101))


def test_a_store_that_others_share_is_asked_again_from_time_to_time():
    spending = Waiting(waiting(store=FailingStore()))
    first = spending.begin()
    spending.meanwhile += [lambda: None, lambda: spending.end(first, used=1)]

    spending.begin()

    assert [park.timeout for park in parks(spending)] == [0.5, 0.5]


def stopped(spending, call):
    """The flow of a call that waits, and what it waits for."""
    flow = spending.flow(call)
    effect = next(flow)
    while not isinstance(effect, Park):
        effect = spending.send(flow, effect)
    return flow, effect


def test_first_come_is_first_served_so_that_a_big_call_is_not_passed_for_ever():
    spending = Waiting(waiting(tokens=200))
    first = spending.begin(a_budgeted_call(max_tokens=100))
    big, big_waits = stopped(spending, a_budgeted_call(max_tokens=150))

    small, small_waits = stopped(spending, a_budgeted_call(max_tokens=1))
    spending.end(first, used=1)

    assert big_waits.latch.is_set
    assert not small_waits.latch.is_set  # though there is room for it
    assert isinstance(spending.send(big, big_waits), Ask)
    small.close()
    big.close()


def test_who_leaves_the_line_lets_the_next_one_know():
    spending = Waiting(waiting())
    spending.begin()
    first, _ = stopped(spending, a_budgeted_call())
    second, second_waits = stopped(spending, a_budgeted_call())

    first.close()

    assert second_waits.latch.is_set
    second.close()


def test_who_stands_behind_others_too_long_asks_once_more_and_gives_up():
    spending = Waiting(waiting(max_wait=5.0))
    spending.begin()
    first, _ = stopped(spending, a_budgeted_call())

    with pytest.raises(BudgetExceededError):
        spending.begin()

    first.close()


def test_who_has_no_time_left_does_not_stand_in_line():
    spending = Waiting(waiting())
    spending.begin()
    first, _ = stopped(spending, a_budgeted_call())
    call = msgspec.structs.replace(a_budgeted_call(), timeout=Timeout(total=3.0))
    spending.clock.advance(5.0)

    with pytest.raises(BudgetExceededError):
        spending.begin(call)

    assert len(parks(spending)) == 0
    first.close()


def test_tags_do_not_wait_for_each_other():
    spending = Waiting(waiting(per_tag=True))
    spending.begin()
    first, _ = stopped(spending, a_budgeted_call())
    scope = type("Scope", (), {"tags": ("ann",), "budgets": (), "deadline": None})()

    other = spending.begin(a_budgeted_call(scope_of=scope))

    assert other.taps
    first.close()
