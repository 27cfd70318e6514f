"""Held before a call is sent, booked when it is over: once, whatever happens."""

from __future__ import annotations

import logging

import pytest

from smartclient import BudgetExceededError, RefusedError
from smartclient._flow import Exchange, Outcome
from smartclient.budgets import Budget
from smartclient.stores import MemoryStore
from smartclient.testing import a_call
from smartclient.wire import Usage
from tests.smartclient.budgets.spending import (
    NOON,
    FailingStore,
    Spending,
    a_budgeted_call,
    a_lost_connection,
    in_scope,
    kinds,
    spent,
)


def test_a_call_holds_what_it_may_use_until_it_is_over():
    budget = Budget(tokens=1000)
    spending = Spending(budget)

    reply = spending.begin()
    used, held = spent(budget)
    spending.end(reply, used=7)

    assert used == 0
    assert held > 50
    assert spent(budget) == (7, 0)


def test_without_a_budget_around_it_a_call_passes_untouched():
    spending, call = Spending(), a_budgeted_call()

    reply = spending.begin(call)

    assert spending.asked == [Exchange(call)]
    assert not reply.taps


def test_a_quick_store_is_asked_without_an_effect():
    """The driver has nothing to wait for, and neither has the call."""
    spending = Spending(Budget(tokens=1000))

    spending.call()

    assert kinds(spending.asked) == ["Exchange"]


def test_any_other_store_is_asked_by_effects():
    spending = Spending(Budget(tokens=1000, store=FailingStore()))

    spending.call()

    assert kinds(spending.asked) == ["Ask", "Exchange", "Ask"]


def test_a_call_without_room_is_not_sent():
    budget = Budget(tokens=100)
    spending = Spending(budget)
    spending.call(used=60)

    with pytest.raises(BudgetExceededError) as caught:
        spending.begin()

    assert kinds(spending.asked).count("Exchange") == 1
    assert (caught.value.spent, caught.value.held, caught.value.limit) == (60, 0, 100)
    assert spent(budget) == (60, 0)


def test_what_a_call_did_not_use_is_free_for_the_next():
    spending = Spending(Budget(tokens=150))

    for _ in range(8):
        spending.call(used=10)


def test_dollars_are_what_the_catalog_says():
    budget = Budget(dollars=1)
    spending = Spending(budget)

    reply = spending.begin()
    reply.call.trace.attempts[-1].usage = Usage(uncached=1000, output=100)
    spending.run(reply.taps[0].after(Outcome("complete", 0.0)))

    assert budget.state().spent["dollars"] == (1000 * 1 + 100 * 10) / 1e6


# Every ending.

ALL = 50 + 12  # output tokens, and at most so many of input


@pytest.mark.parametrize("store", [MemoryStore, FailingStore], ids=["quick", "slow"])
@pytest.mark.parametrize(
    ("answer", "is_billed"),
    [
        pytest.param(a_lost_connection(), False, id="never-sent"),
        pytest.param(a_lost_connection("all"), True, id="maybe-processed"),
        pytest.param(RefusedError("no"), False, id="refused-further-in"),
        pytest.param(ValueError("a bug"), False, id="any-error"),
    ],
)
def test_a_call_that_failed_is_settled(store, answer, is_billed):
    budget = Budget(tokens=1000, store=store())
    spending = Spending(budget)

    with pytest.raises(type(answer)):
        spending.run(spending.flow(a_budgeted_call()), answer)

    used, held = spent(budget)
    assert held == 0
    assert (used > 50) is is_billed
    assert not spending.leftovers


@pytest.mark.parametrize("how", [KeyboardInterrupt(), GeneratorExit()], ids=["cancelled", "left"])
def test_a_call_that_is_cancelled_is_settled_at_once_in_a_quick_store(how):
    budget = Budget(tokens=1000)
    spending = Spending(budget)

    with pytest.raises(type(how)):
        spending.run(spending.flow(a_budgeted_call()), how)

    assert spent(budget) == (0, 0)


def test_a_call_that_is_cancelled_leaves_a_slow_store_to_be_told_later():
    """Nothing is waited for while a cancellation is in flight."""
    budget = Budget(tokens=1000, store=FailingStore())
    spending = Spending(budget)

    with pytest.raises(KeyboardInterrupt):
        spending.run(spending.flow(a_budgeted_call()), KeyboardInterrupt())
    held_meanwhile = spent(budget)[1]
    spending.run(spending.leftovers.popleft())

    assert held_meanwhile > 50
    assert spent(budget) == (0, 0)


@pytest.mark.parametrize(
    ("status", "kind", "is_billed"),
    [
        pytest.param(400, "complete", False, id="an-error-status"),
        pytest.param(200, "cut", True, id="a-body-that-nobody-read"),
        pytest.param(200, "failed", True, id="a-body-that-broke"),
        pytest.param(200, "complete", True, id="usage-never-told"),
    ],
)
def test_a_body_that_ended_is_settled(status, kind, is_billed):
    budget = Budget(tokens=1000)
    spending = Spending(budget)

    reply = spending.begin(status=status)
    spending.end(reply, kind=kind)

    used, held = spent(budget)
    assert held == 0
    assert (used > 50) is is_billed


def test_a_dropped_body_settles_before_anybody_runs_its_flow():
    """Which the client's next call does, perhaps never: others wait for the room meanwhile."""
    budget = Budget(tokens=1000)
    reply = Spending(budget).begin()

    reply.taps[0].after(Outcome("cut", 0.0))

    assert spent(budget)[1] == 0


def test_ending_twice_counts_once():
    budget = Budget(tokens=1000)
    spending = Spending(budget)
    reply = spending.begin()

    spending.end(reply, used=9)
    spending.end(reply)

    assert spent(budget) == (9, 0)


# What counts.


def test_counting_tokens_takes_nothing():
    budget = Budget(requests=1)
    spending = Spending(budget)

    for _ in range(3):
        spending.begin(a_budgeted_call(path="/v1/messages/count_tokens"))

    assert budget.left() == {"requests": 1}


def test_what_is_in_no_known_format_counts_as_a_request(caplog):
    budget = Budget(dollars=1, requests=9)
    spending = Spending(budget)

    with caplog.at_level(logging.WARNING, "smartclient"):
        for _ in range(2):
            spending.end(spending.begin(a_call(path="/v1/embeddings")))

    state = budget.state()
    assert (state.spent["requests"], state.spent["dollars"]) == (2, 0)
    assert caplog.text.count("/v1/embeddings") == 1


def test_where_requests_alone_are_limited_nothing_is_missing(caplog):
    spending = Spending(Budget(requests=9))

    with caplog.at_level(logging.WARNING, "smartclient"):
        spending.end(spending.begin(a_call(path="/v1/embeddings")))

    assert not caplog.records


def test_a_model_without_a_price_is_refused_where_dollars_are_limited():
    with pytest.raises(RefusedError, match="what 'unheard-of' costs"):
        Spending(Budget(dollars=1)).begin(a_budgeted_call(model="unheard-of"))


def test_a_model_without_a_price_is_free_where_that_was_allowed():
    budget = Budget(dollars=1, unknown_price="allow")

    Spending(budget).call(model="unheard-of")

    assert budget.left() == {"dollars": 1.0}


def test_requests_alone_need_no_count_of_tokens():
    budget = Budget(requests=2)
    spending = Spending(budget)

    spending.call(model="unheard-of", messages=None)

    assert budget.left() == {"requests": 1}


# Scopes and tags.


def test_a_call_takes_of_every_budget_around_it():
    app, user, run = Budget(name="app", tokens=900), Budget(tokens=800), Budget(tokens=700)
    with_run = in_scope(budget=user)
    spending = Spending(app)

    scope = type(with_run)(budgets=((user, None), (run, None)))
    spending.end(spending.begin(a_budgeted_call(scope_of=scope)), used=6)

    assert [spent(one) for one in (app, user, run)] == [(6, 0)] * 3


def test_a_budget_that_is_around_a_call_twice_counts_it_once():
    budget = Budget(tokens=900)
    spending = Spending(budget)

    spending.end(spending.begin(a_budgeted_call(scope_of=in_scope(budget=budget))), used=6)

    assert spent(budget) == (6, 0)


def test_a_clients_budget_per_tag_goes_by_the_innermost_tag():
    budget = Budget(tokens=900, per_tag=True)
    spending = Spending(budget)
    scope = type(in_scope(tag="x"))(tags=("app", "ann"))

    spending.end(spending.begin(a_budgeted_call(scope_of=scope)), used=6)
    spending.call(used=4)

    assert [spent(budget, tag) for tag in ("ann", "app", None)] == [(6, 0), (0, 0), (4, 0)]


def test_a_scopes_budget_per_tag_goes_by_the_tag_of_its_scope():
    budget = Budget(tokens=900, per_tag=True)
    scope = type(in_scope(tag="x"))(tags=("ann", "run"), budgets=((budget, "ann"),))
    spending = Spending()

    spending.end(spending.begin(a_budgeted_call(scope_of=scope)), used=6)

    assert spent(budget, "ann") == (6, 0)


def test_what_is_left_is_in_the_record_of_the_call():
    app, user = Budget(name="app", tokens=100, dollars=1), Budget(name="user", requests=5)
    spending = Spending(app, user)

    trace = spending.call(used=6)

    assert trace.budget_left == {
        "app": {"dollars": 0.999994, "tokens": 94},
        "user": {"requests": 4},
    }


def test_budgets_of_one_name_are_told_apart():
    names = ("app 3", "app", "app", "app")
    trace = Spending(*(Budget(name=name, tokens=100) for name in names)).call(used=6)

    assert list(trace.budget_left) == ["app 3", "app", "app 2", "app 4"]


def test_a_window_that_is_over_is_counted_anew():
    spending = Spending(Budget(tokens=100, per="minute"))
    spending.call(used=60)

    spending.clock.advance(60.0)
    trace = spending.call(used=5)

    assert trace.budget_left == {"budget": {"tokens": 95}}


def test_a_call_counts_in_the_window_in_which_it_began():
    budget = Budget(tokens=100, per="minute")
    spending = Spending(budget)

    reply = spending.begin()
    spending.clock.advance(60.0)
    spending.end(reply, used=60)

    assert spent(budget) == (60, 0)
    assert budget.left(at=NOON + 60) == {"tokens": 100}


def test_a_share_that_is_reached_is_warned_of_when_the_call_is_over():
    seen = []
    spending = Spending(Budget(tokens=200, warn_at=[0.25], on_warning=seen.append))

    spending.call(used=40)
    assert not seen
    spending.call(used=20)

    assert [state.spent["tokens"] for state in seen] == [60]
