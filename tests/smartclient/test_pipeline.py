"""The policies in their order, and what is kept between calls."""

from __future__ import annotations

import contextlib
import gc
import inspect
import logging
import subprocess
import sys
import weakref
from collections import deque

import pytest
from msgspec.structs import replace

from smartclient import Budget, scope
from smartclient._flow import Exchange, Outcome, Peek, Sleep, ask, sleep
from smartclient._pipeline import Pipeline, finish_at_exit
from smartclient._scope import Scope
from smartclient._settings import Settings
from smartclient.ledger import Ledger
from smartclient.stores import Read
from smartclient.testing import OVERLOADED, ManualClock, a_call, a_reply, play
from smartclient.tokens import Calibrator, TokenCount
from smartclient.wire import Usage
from tests.smartclient.budgets.spending import FailingStore


def a_pipeline(**options):
    return Pipeline(Settings(clock=ManualClock(0.0), **options))


def ended(reply, *, at: float = 1.0):
    """Run what telemetry does when the body of `reply` is complete."""
    for tap in reply.taps:
        play(tap.after(Outcome("complete", at)), [])


def test_every_attempt_is_inside_one_report():
    pipeline, ok = a_pipeline(wait=lambda state: 2.0), a_reply()
    answers = [a_reply(529), OVERLOADED, None, None, ok, None]

    reply, asked = play(pipeline.flow(a_call()), answers)
    ended(reply)

    assert [type(effect).__name__ for effect in asked] == (
        "Exchange Peek Close Sleep Exchange Peek".split()
    )
    assert pipeline.last_report.status == 200


def test_each_call_is_in_the_ledger_at_the_time_of_the_clock():
    ledger = Ledger()
    pipeline = a_pipeline(ledger=ledger)

    reply, _ = play(pipeline.flow(a_call()), [a_reply(), None])
    ended(reply)

    assert [(entry.at, entry.status) for entry in ledger] == [(0.0, 200)]


def test_a_call_is_in_the_ledger_with_the_tags_that_it_was_made_under():
    ledger = Ledger()
    pipeline = a_pipeline(ledger=ledger)

    call = replace(a_call(), scope=Scope(tags=("user", "run")))
    reply, _ = play(pipeline.flow(call), [a_reply(), None])
    ended(reply)

    assert [entry.tags for entry in ledger] == [("user", "run")]


def test_a_ledger_that_fails_does_not_break_the_call(caplog, monkeypatch):
    ledger = Ledger()
    monkeypatch.setattr(ledger, "add", None)
    pipeline = a_pipeline(ledger=ledger)

    reply, _ = play(pipeline.flow(a_call()), [a_reply(), None])
    ended(reply)

    assert pipeline.last_report.status == 200
    assert caplog.records[0].getMessage().startswith("the ledger failed")


def test_what_a_dropped_body_left_is_done_before_the_next_call():
    pipeline, call, ok = a_pipeline(), a_call(), a_reply()
    pipeline.leftovers.extend([sleep(1.0), sleep(2.0)])

    _, asked = play(pipeline.flow(call), [None, None, ok, None])

    assert asked == [Sleep(1.0), Sleep(2.0), Exchange(call), Peek(ok)]
    assert not pipeline.leftovers


def test_a_leftover_that_another_thread_took_is_no_error():
    class Contested(deque):
        """Says that it has something, and has nothing any more."""

        def __bool__(self):
            return True

    pipeline, ok = a_pipeline(), a_reply()
    pipeline.leftovers = Contested()

    reply, _ = play(pipeline.flow(a_call()), [ok, None])

    assert reply is ok


def a_note(seen, word, *waits):
    """A leftover: it waits, then says its word."""
    yield from waits
    seen.append(word)


def test_what_a_dropped_body_left_is_done_at_exit_if_it_waits_for_nothing():
    pipeline, seen = a_pipeline(), []
    waiting = a_note(seen, "waited", *sleep(1.0))
    pipeline.leftovers.extend([waiting, a_note(seen, "told")])

    finish_at_exit(weakref.ref(pipeline))

    assert seen == ["told"]
    assert inspect.getgeneratorstate(waiting) == inspect.GEN_CLOSED
    assert not pipeline.leftovers


def test_a_dropped_stream_is_reported_at_exit():
    code = (
        "from tests.smartclient.fakes import BLOCKING, START, a_stream\n"
        "from tests.smartclient.clients import GIVEN, an_anthropic\n"
        "told = lambda report: print(report.error)\n"
        "prices = {'tiny': {'prices': {'input': 1, 'output': 1}}}\n"
        "stream = a_stream(START)\n"
        "client, _ = an_anthropic(BLOCKING, stream, on_report=told, catalog=prices)\n"
        "client.messages.create(stream=True, **GIVEN)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("cut\n", "")


def test_a_dropped_pipeline_is_freed_with_what_is_left():
    pipeline = a_pipeline()
    pipeline.leftovers.append(a_note(pipeline, "never"))
    freed = weakref.ref(pipeline)

    del pipeline
    gc.collect()

    assert freed() is None


def test_each_report_is_kept_and_given_to_the_observer():
    seen = []
    pipeline = a_pipeline(on_report=seen.append)

    reply, _ = play(pipeline.flow(a_call()), [a_reply(), None])
    ended(reply, at=3.0)

    assert seen == [pipeline.last_report]
    assert seen[0].duration == 3.0


def test_an_observer_that_raises_breaks_nothing(caplog):
    def observer(report):
        raise RuntimeError("disk full")

    pipeline = a_pipeline(on_report=observer)
    reply, _ = play(pipeline.flow(a_call()), [a_reply(), None])

    with caplog.at_level(logging.ERROR, "smartclient"):
        ended(reply)

    assert pipeline.last_report is not None
    assert "on_report failed" in caplog.text
    assert "disk full" in caplog.text


# Scopes and budgets.


def test_without_scope_and_budget_no_policy_of_theirs_is_loaded():
    code = (
        "import sys\n"
        "from smartclient._pipeline import Pipeline\n"
        "from smartclient._settings import Settings\n"
        "from smartclient.testing import a_call, a_reply, play\n"
        "play(Pipeline(Settings()).flow(a_call()), [a_reply(), None])\n"
        "print(*[name for name in sys.modules if 'budget' in name or 'deadline' in name])\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("\n", "")


def test_a_call_knows_the_scopes_that_it_was_made_in():
    pipeline, call = a_pipeline(), a_call()

    with scope(tag="app"), scope(tag="ann"):
        _, asked = play(pipeline.flow(call), [a_reply(), None])
    _, outside = play(pipeline.flow(call), [a_reply(), None])

    assert asked[0].call.scope.tags == ("app", "ann")
    assert outside == [Exchange(call), outside[1]]


def test_a_scope_without_a_tag_bounds_its_calls():
    with scope(deadline=5.0):
        _, asked = play(a_pipeline().flow(a_call()), [a_reply(), None])

    assert asked[0].call.timeout.total is not None


def test_stores_are_told_at_exit_what_they_are_owed():
    store = FailingStore()
    budget = Budget(tokens=1000, store=store)
    pipeline = a_pipeline(budgets=[budget])
    flow = pipeline.flow(a_call())
    flow.send(store.do(next(flow).operation))  # the reservation is made, the call is sent
    assert budget.state().held["tokens"] > 8

    flow.close()  # as the collector does with a call whose task is gone
    finish_at_exit(weakref.ref(pipeline))

    assert budget.state().held["tokens"] == 0


def test_what_a_body_that_is_still_read_holds_is_settled_at_exit():
    """It is dropped after that, when nobody can tell a store any more."""
    store = FailingStore()
    budget = Budget(tokens=1000, store=store)
    pipeline = a_pipeline(budgets=[budget])
    call = a_call()
    flow = pipeline.flow(call)
    effect = flow.send(store.do(next(flow).operation))
    call.trace.begin(call.origin, at=0.0).status = 200
    reply = a_reply(call=effect.call)
    with contextlib.suppress(StopIteration):
        flow.send(reply)
        flow.send(None)  # it is a success

    finish_at_exit(weakref.ref(pipeline))
    at_exit = budget.state()
    ended(reply)

    assert at_exit.held["tokens"] == 0
    assert at_exit.spent["tokens"] > 8
    assert (budget.state().spent, store.asked.count("Settle")) == (at_exit.spent, 1)


def test_a_store_that_fails_at_exit_keeps_nothing_else_from_being_done(caplog):
    store, seen = FailingStore(), []
    store.is_down = True
    pipeline = a_pipeline()
    pipeline.leftovers.extend([ask(store, Read((), 0.0)), a_note(seen, "told")])

    finish_at_exit(weakref.ref(pipeline))

    assert seen == ["told"]
    assert "failed at exit" in caplog.text


def test_closing_tells_stores_what_they_are_owed():
    pipeline = a_pipeline(budgets=[Budget(tokens=1000)])

    assert list(pipeline.finish()) == []


def test_a_client_prices_by_its_own_catalog():
    pipeline = a_pipeline(catalog={"tiny": {"prices": {"input": 1, "output": 2}}})
    call = a_call()
    attempt = call.trace.begin(call.origin, at=0.0)
    attempt.model, attempt.usage = call.model, Usage(uncached=1_000_000, output=1_000_000)

    reply, _ = play(pipeline.flow(call), [a_reply(call=call), None])
    ended(reply)

    assert pipeline.last_report.cost == 3.0


def test_what_calls_teach_is_one_clients_own_unless_it_is_shared():
    given = Calibrator()

    own, other = a_pipeline(), a_pipeline()

    assert own.calibrator is own.calibrator
    assert own.calibrator is not other.calibrator
    assert a_pipeline(calibrator=given).calibrator is given


def test_a_counted_call_teaches_the_clients_calibrator():
    pipeline, call = a_pipeline(), a_call()
    call.trace.counted = TokenCount(90, 100, 110, "heuristic", "text", 100)
    attempt = call.trace.begin(call.origin, at=0.0)
    attempt.model, attempt.usage = call.model, Usage(uncached=120, output=1)

    reply, _ = play(pipeline.flow(call), [a_reply(call=call), None])
    ended(reply)

    assert len(pipeline.calibrator) == 1


@pytest.mark.parametrize("given", [Calibrator(), None], ids=["given", "its-own"])
def test_a_calibrator_that_is_given_learns_from_calls_without_a_budget_too(given):
    pipeline, call = a_pipeline(calibrator=given), a_call()
    attempt = call.trace.begin(call.origin, at=0.0)
    attempt.model, attempt.usage = call.model, Usage(uncached=12, output=1)

    reply, _ = play(pipeline.flow(call), [a_reply(call=call), None])
    ended(reply)

    assert len(pipeline.calibrator) == (given is not None)


def test_a_store_that_is_gone_is_waited_for_once_at_exit():
    """A thousand dropped bodies must not take a thousand time-outs."""
    pipeline, store = a_pipeline(), FailingStore()
    store.is_down = True
    pipeline.leftovers.extend([ask(store, Read((), 0.0)) for _ in range(3)])

    finish_at_exit(weakref.ref(pipeline))

    assert store.asked == ["Read"]
