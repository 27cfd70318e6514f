"""What holds for every call inside a `with` block."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from time import monotonic

import pytest

import smartclient
from smartclient import Budget, scope
from smartclient._scope import current_scope

APP, USER = Budget(name="app", tokens=100), Budget(name="user", tokens=50)


def test_there_is_none_outside():
    with scope(tag="a"):
        pass

    assert current_scope() is None


def test_it_is_reached_by_the_name_of_the_package():
    assert smartclient.scope is scope


def test_scopes_add_up_from_the_outside_in():
    with scope(tag="app", budget=APP), scope(budget=USER), scope(tag="run"):
        inner = current_scope()

    assert inner.tags == ("app", "run")
    assert inner.budgets == ((APP, "app"), (USER, None))


def test_the_nearest_deadline_counts():
    before = monotonic()
    with scope(deadline=5.0), scope(deadline=60.0) as inner:
        pass

    assert 0.0 <= inner.deadline - before - 5.0 < 1.0


def test_an_error_inside_leaves_it_too():
    with pytest.raises(RuntimeError), scope(tag="a"):
        raise RuntimeError

    assert current_scope() is None


def test_a_task_inherits_it_and_keeps_its_own():
    async def inner(name):
        with scope(tag=name):
            await asyncio.sleep(0)
            return current_scope().tags

    async def main():
        with scope(tag="app"):
            return await asyncio.gather(inner("a"), inner("b"))

    assert asyncio.run(main()) == [("app", "a"), ("app", "b")]


def test_a_thread_has_it_in_a_copy_of_the_context():
    seen = []
    with scope(tag="app"):
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: seen.append(context.run(current_scope).tags))
        thread.start()
        thread.join()

    assert seen == [("app",)]


def test_a_generator_that_is_left_in_it_is_closed_without_an_error(caplog):
    """The loop closes an async generator in a task, and so in a context, of its own."""

    async def answers():
        with scope(tag="a"):
            yield 1
            yield 2

    async def main():
        async for _ in answers():
            break

    asyncio.run(main())
    gc.collect()

    assert not caplog.records


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        pytest.param({"tag": 5}, TypeError, "tag must be text, not int", id="tag"),
        pytest.param({"tag": ""}, ValueError, "1 to 200 characters, not 0", id="empty-tag"),
        pytest.param({"tag": "x" * 201}, ValueError, "200 characters, not 201", id="long-tag"),
        pytest.param({"budget": 5.0}, TypeError, "must be a Budget, not float", id="budget"),
        pytest.param({"deadline": "5"}, TypeError, "must be seconds, not str", id="deadline"),
        pytest.param({"deadline": True}, TypeError, "must be seconds, not bool", id="bool"),
        pytest.param({"deadline": 0}, ValueError, "above 0 s and at most 1,000", id="over"),
        pytest.param({"deadline": float("nan")}, ValueError, "not nan", id="nan"),
        pytest.param({"deadline": 10**400}, ValueError, "000 s, not more", id="endless"),
    ],
)
def test_what_cannot_be_is_refused_at_the_door(given, error, message):
    with pytest.raises(error, match=message), scope(**given):
        pass

    assert current_scope() is None


def test_a_budget_inside_a_smaller_one_can_never_be_used_up():
    big = Budget(name="run", tokens=101)

    told = pytest.raises(ValueError, match="'run' allows 101 tokens in all, inside 'app', which")
    with told, scope(budget=APP), scope(budget=big):
        pass


def test_a_budget_that_is_around_already_may_be_given_again():
    """As by a function that is called inside of a smaller one."""
    with scope(budget=APP), scope(budget=USER), scope(budget=APP) as inner:
        assert [budget for budget, _ in inner.budgets] == [APP, USER, APP]


def test_a_longer_window_inside_a_shorter_one_may_be_larger():
    minute = Budget(tokens=10, per="minute")

    with scope(budget=minute), scope(budget=Budget(tokens=1000, per="day")) as inner:
        assert len(inner.budgets) == 2
