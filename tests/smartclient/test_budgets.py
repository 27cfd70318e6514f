"""Budgets under whole clients, blocking and async, with everything that can happen to a call."""

from __future__ import annotations

import asyncio
import gc
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient import (
    AsyncClient,
    Budget,
    BudgetExceededError,
    Client,
    ExchangeError,
    SmartClientError,
    scope,
)
from smartclient.budgets import Downgrade
from smartclient.stores import MemoryStore
from smartclient.testing import ManualClock
from tests.smartclient.budgets.spending import FailingStore
from tests.smartclient.clients import ANSWER, BUSY, GIVEN, an_anthropic, an_openai
from tests.smartclient.fakes import (
    BLOCKING,
    CHAT,
    MESSAGE,
    OVERLOAD,
    START,
    Answer,
    AsyncProvider,
    a_stream,
    text,
)

MODEL = GIVEN | {"model": "claude-sonnet-4-5"}


def spent(budget):
    state = budget.state()
    return state.spent["tokens"], state.held["tokens"]


def test_a_call_is_counted_and_its_report_says_what_is_left(home):
    budget = Budget(name="app", tokens=1000, dollars=1, requests=10)
    client, _ = an_anthropic(home, Answer(MESSAGE), budgets=[budget])

    home.do(client.messages.create(**MODEL))

    assert spent(budget) == (11, 0)
    left = client.last_report.budget_left
    assert left == {"app": {"dollars": 1 - (9 * 3 + 2 * 15) / 1e6, "tokens": 989, "requests": 9}}


def test_a_refusal_is_raised_and_reported(home):
    client, provider = an_anthropic(home, budgets=[Budget(tokens=10)])

    with pytest.raises(BudgetExceededError):
        home.do(client.messages.create(**GIVEN))

    assert not provider.calls
    assert client.last_report.error == "refused"


def test_a_stream_is_counted_when_it_has_ended(home):
    budget = Budget(tokens=1000)
    client, _ = an_anthropic(home, a_stream(*ANSWER), budgets=[budget])

    stream = home.do(client.messages.create(stream=True, **GIVEN))
    held = spent(budget)[1]
    home.all(stream)

    assert held > 8
    assert spent(budget) == (11, 0)


def test_a_stream_that_was_left_costs_its_input_and_all_the_output_it_might_have(home):
    budget = Budget(tokens=1000)
    client, _ = an_anthropic(home, a_stream(*ANSWER), budgets=[budget])

    stream = home.do(client.messages.create(stream=True, **GIVEN))
    home.first(stream)
    home.do(stream.close())

    assert spent(budget) == (9 + 8, 0)


@pytest.mark.usefixtures("no_collector")
def test_a_stream_that_is_dropped_is_settled_there_and_then(home):
    budget = Budget(tokens=1000)
    client, _ = an_anthropic(home, a_stream(*ANSWER), budgets=[budget])

    stream = home.do(client.messages.create(stream=True, **GIVEN))
    home.first(stream)
    del stream

    assert spent(budget) == (9 + 8, 0)


def test_a_dropped_stream_is_told_to_a_slow_store_by_the_next_call(home):
    budget = Budget(tokens=1000, store=FailingStore())
    client, _ = an_anthropic(home, a_stream(*ANSWER), Answer(MESSAGE), budgets=[budget])

    stream = home.do(client.messages.create(stream=True, **GIVEN))
    home.first(stream)
    del stream
    gc.collect()
    home.do(client.messages.create(**GIVEN))

    assert spent(budget) == (9 + 8 + 11, 0)


def test_all_attempts_settle_into_one_reservation(home):
    lost = ExchangeError("gone", kind="closed", sent="all")
    busy, early = Answer(BUSY, status=529), a_stream(OVERLOAD)
    budget = Budget(tokens=1000, requests=5)
    client, _ = an_anthropic(
        home,
        lost,
        busy,
        early,
        a_stream(*ANSWER),
        budgets=[budget],
        max_retries=3,
        wait=lambda state: 0.0,
    )

    home.all(home.do(client.messages.create(stream=True, **GIVEN)))

    used, held = spent(budget)
    worst = used - 11
    assert held == 0
    assert 8 < worst < 40  # of the attempt whose connection broke, and of no other
    assert budget.left()["requests"] == 4


def test_a_shorter_answer_is_asked_for_and_the_report_says_so(home):
    budget = Budget(name="app", tokens=30, on_limit=Downgrade(max_tokens=1))
    client, provider = an_anthropic(home, Answer(MESSAGE), budgets=[budget])

    home.do(client.messages.create(**GIVEN | {"max_tokens": 500}))

    sent = provider.calls[0].payload["max_tokens"]
    assert sent < 30
    assert client.last_report.downgraded == f"budget 'app': max_tokens 500 -> {sent}"


def test_scopes_hold_for_our_own_clients(home):
    user, run = Budget(name="user", tokens=1000), Budget(name="run", tokens=500)
    client, _ = an_openai(home, Answer(CHAT), Answer(CHAT))

    asked = {"model": "gpt-4o", "messages": GIVEN["messages"], "max_completion_tokens": 20}

    with scope(tag="ann", budget=user), scope(budget=run):
        home.do(client.chat.completions.create(**asked))
    home.do(client.chat.completions.create(**asked))

    assert spent(user) == spent(run) == (11, 0)


def test_a_deadline_ends_a_call_that_is_out():
    class Silent(AsyncProvider):
        async def exchange(self, call, timeline):
            timeout, deadline = timeline.within(None)
            assert deadline.limit == "total"
            assert timeout < 1.0
            raise ExchangeError("late", kind="total_timeout")

    client = AsyncClient(base_url="http://127.0.0.1:1", api_key="k")
    client._connections = Silent()

    async def main():
        with scope(deadline=1.0), pytest.raises(ExchangeError, match="late"):
            await client.messages.create(**GIVEN)

    asyncio.run(main())


def test_what_is_owed_is_told_when_a_client_is_closed(home):
    store = FailingStore()
    budget = Budget(tokens=1000, store=store)
    client, _ = an_anthropic(home, Answer(MESSAGE), budgets=[budget])
    stream = home.do(client.messages.create(**GIVEN))
    assert stream

    store.is_down = False
    home.do(client.close())

    assert spent(budget) == (11, 0)


def test_a_wait_of_a_thread_ends_when_another_lets_go():
    budget = Budget(tokens=40, on_limit="wait", max_wait=20.0)
    client, _ = an_anthropic(BLOCKING, a_stream(*ANSWER), Answer(MESSAGE), budgets=[budget])
    stream = client.messages.create(stream=True, **GIVEN)
    done = []

    waiting = threading.Thread(target=lambda: done.append(client.messages.create(**GIVEN)))
    waiting.start()
    while not budget.book.counter(None).line.tickets:
        threading.Event().wait(0.001)
    list(stream)
    waiting.join()

    assert done
    assert spent(budget) == (22, 0)


def test_a_wait_of_a_task_ends_when_another_lets_go_and_one_that_is_cancelled_leaves():
    budget = Budget(tokens=40, on_limit="wait", max_wait=20.0)

    async def main():
        client = AsyncClient(base_url="http://127.0.0.1:1", api_key="k", budgets=[budget])
        client._connections = AsyncProvider(a_stream(*ANSWER), Answer(MESSAGE))
        stream = await client.messages.create(stream=True, **GIVEN)
        leaves = asyncio.create_task(client.messages.create(**GIVEN))
        await asyncio.sleep(0)
        waits = asyncio.create_task(client.messages.create(**GIVEN))
        await asyncio.sleep(0)
        leaves.cancel()
        async for _ in stream:
            pass
        return await waits

    assert asyncio.run(main())
    assert spent(budget) == (22, 0)
    assert not budget.book.counter(None).line.tickets


def test_a_wait_for_the_next_window_passes_at_once_on_a_manual_clock(home):
    clock = ManualClock(0.0)
    budget = Budget(tokens=40, per="hour", on_limit="wait")
    answers = [Answer(MESSAGE)] * 3
    client, _ = an_anthropic(home, *answers, clock=clock, budgets=[budget])

    for _ in range(3):
        home.do(client.messages.create(**GIVEN))

    assert clock.slept == [3600.0]


# Whatever happens.

FATES = st.sampled_from(["whole", "stream", "left", "dropped", "busy", "lost", "unsent", "refused"])


def live(client, fate):
    """One call with this fate."""
    is_stream = fate in ("stream", "left", "dropped")
    try:
        answer = client.messages.create(stream=is_stream, **GIVEN)
    except SmartClientError:
        return
    if fate == "stream":
        list(answer)
    elif fate == "left":
        next(iter(answer))
        answer.close()


ANSWERS = {
    "whole": Answer(MESSAGE),
    "stream": a_stream(*ANSWER),
    "left": a_stream(START, text("a")),
    "dropped": a_stream(START, text("a")),
    "busy": Answer(BUSY, status=529),
    "lost": ExchangeError("gone", kind="read", sent="all"),
    "unsent": ExchangeError("gone", kind="connect"),
    "refused": Answer(b"{}", status=400),
}


class Watched(MemoryStore):
    """Notes the most that was ever spent and held at once by calls that were let through."""

    most = 0

    def do(self, operation):
        answer = super().do(operation)
        for entry in self._entries.values():
            self.most = max(self.most, entry.tokens + entry.held_tokens)
        return answer


@given(st.lists(FATES, max_size=25))
def test_whatever_happens_nothing_stays_held_and_no_limit_is_crossed(fates):
    store = Watched()
    budget = Budget(tokens=250, store=store)
    client, provider = an_anthropic(BLOCKING, budgets=[budget], resend=False)

    for fate in fates:
        provider._answers.clear()
        provider._answers.append(ANSWERS[fate])
        live(client, fate)

    assert spent(budget)[1] == 0
    assert store.most <= 250


def test_many_threads_overspend_nothing():
    budget = Budget(tokens=3_000)

    def work(seed):
        chance = random.Random(seed)
        client = Client(base_url="http://127.0.0.1:1", api_key="k", budgets=[budget], max_retries=0)
        for _ in range(40):
            fate = chance.choice(list(ANSWERS))
            client._connections = BLOCKING.provider(ANSWERS[fate])
            live(client, fate)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()

    used, held = spent(budget)
    assert held == 0
    assert 2_000 < used <= 3_000


def test_many_tasks_of_which_some_are_cancelled_leave_nothing_held():
    budget = Budget(tokens=2_000, on_limit="wait", max_wait=5.0)
    chance = random.Random(7)

    class Slow(AsyncProvider):
        async def exchange(self, call, timeline):
            await asyncio.sleep(chance.random() / 1000)
            return await super().exchange(call, timeline)

    async def one():
        client = AsyncClient(
            base_url="http://127.0.0.1:1", api_key="k", budgets=[budget], max_retries=0
        )
        client._connections = Slow(a_stream(*ANSWER))
        async for _ in await client.messages.create(stream=True, **GIVEN):
            await asyncio.sleep(0)

    async def main():
        tasks = [asyncio.create_task(one()) for _ in range(60)]
        await asyncio.sleep(0.002)
        for task in chance.sample(tasks, 20):
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(main())

    odd = [one for one in results if one and not isinstance(one, asyncio.CancelledError)]
    assert odd == []
    assert spent(budget)[1] == 0
