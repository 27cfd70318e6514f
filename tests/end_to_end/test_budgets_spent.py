"""What budgets count over real connections: as much as the reports of the same calls say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from math import ceil

import anthropic
import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer, fault
from smartclient import AsyncClient, Budget, scope
from smartclient.stores import SQLiteStore
from tests.end_to_end.usage_callers import APIS, ASKED, PRICES, callers

pytestmark = pytest.mark.sdk

ANSWER = Answer("Hello big wide world")


def a_budget(**given):
    return Budget(**{"name": "run", "dollars": 5, "tokens": 100_000, "requests": 9} | given)


@callers(*APIS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_call_costs_its_budget_what_its_report_says(caller, stream):
    budget = a_budget()
    parts = {"uncached": 3, "read": 500, "write": 12_304, "output": 55}
    answer = ANSWER | fault("cached_usage", **parts)
    with server_reference.scripted(answer) as server, scope(tag="ann", budget=budget):
        report = caller.report(server, stream=stream)

    state, usage = budget.state(), report.usage
    assert state.spent["tokens"] == usage.input_tokens + usage.output
    assert round(state.spent["dollars"] * 10**9) == ceil(report.exact_cost * 10**9)
    assert (state.spent["requests"], state.held["tokens"]) == (1, 0)
    assert report.budget_left["run"]["dollars"] == state.left["dollars"]


@callers(*APIS)
def test_a_stream_that_was_left_costs_at_least_what_its_report_says(caller):
    budget = a_budget()
    with server_reference.scripted(ANSWER) as server, scope(budget=budget):
        report = caller.report(server, leave=2)

    state = budget.state()
    assert state.held["tokens"] == 0
    assert state.spent["dollars"] >= (report.cost_at_least or 0.0)
    assert state.spent["tokens"] > 9


@callers(*APIS)
def test_no_call_is_sent_without_room(caller):
    with server_reference.scripted(ANSWER) as server, scope(budget=Budget(tokens=5)):
        report = caller.report(server)

    assert (report.error, report.attempts) == ("refused", [])


def test_a_deadline_ends_a_call_whose_answer_does_not_come():
    with server_reference.scripted(Answer("late", ttft=5.0)) as server:
        client = smartclient.wrap(anthropic.Anthropic(base_url=server.base_url, api_key="k"))
        with scope(deadline=0.3), pytest.raises(anthropic.APITimeoutError):
            client.messages.create(model="m", max_tokens=9, messages=ASKED)
        client.close()


def test_tasks_that_are_cancelled_while_they_are_out_leave_nothing_held():
    budget = a_budget(requests=None)

    async def main(url):
        async with AsyncClient(base_url=url, api_key="k", catalog=PRICES) as client:
            asked = {"model": "m", "max_tokens": 9, "messages": ASKED}
            tasks = [asyncio.create_task(client.messages.create(**asked)) for _ in range(20)]
            await asyncio.sleep(0.1)
            for task in tasks[::2]:
                task.cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

    with server_reference.scripted(Answer("hi", ttft=0.3)) as server, scope(budget=budget):
        results = asyncio.run(main(server.base_url))

    assert sum(isinstance(one, asyncio.CancelledError) for one in results) == 10
    assert budget.state().held["tokens"] == 0
    assert 10 <= budget.state().spent["requests"] <= 20  # whatever was written may be billed


LEFT = """
import sys
from smartclient import Budget, Client
from smartclient.stores import SQLiteStore

url, path = sys.argv[1:]
budget = Budget(name="run", tokens=1000, store=SQLiteStore(path))
client = Client(base_url=url, api_key="k", budgets=[budget])
asked = [{"role": "user", "content": "hi"}]
stream = client.messages.create(model="m", max_tokens=9, messages=asked, stream=True)
next(iter(stream))
"""


@pytest.mark.parametrize(
    "end", ["", "client.close()", "sys.exit(0)"], ids=["end", "closed-client", "exit"]
)
def test_a_process_that_ends_with_an_open_stream_holds_nothing_any_more(end, tmp_path):
    """Others that share the store would be refused for it, without a window for ever."""
    with server_reference.scripted(Answer("a b c d", itl=0.3)) as server:
        command = [sys.executable, "-c", LEFT + end, server.base_url, str(tmp_path / "books.db")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)

    store = SQLiteStore(tmp_path / "books.db")
    state = Budget(name="run", tokens=1000, store=store).state()
    store.close()
    assert (done.stderr, state.held["tokens"]) == ("", 0)
    assert state.spent["tokens"] > 9
