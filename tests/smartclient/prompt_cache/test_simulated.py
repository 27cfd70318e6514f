"""Whole conversations against a small cache: what is predicted happens, and it pays."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartclient import catalog
from smartclient._call import Attempt, Origin, Timeline
from smartclient.prompt_cache import CacheHints
from smartclient.prompt_cache.hinting import Hinter
from smartclient.wire import Usage
from tests.smartclient.prompt_cache.payloads import agent_turn, messages
from tests.smartclient.prompt_cache.tiny_cache import TinyCache, cost

MODEL = "claude-opus-5"
FACTS = catalog.model(MODEL)
LONG = "a rule of some length " * 200


class Run:
    """Calls with hints, beside the same calls without."""

    def __init__(self, mode, *, least=512):
        self.hinter, self.cache = Hinter(CacheHints(mode=mode)), TinyCache(least=least)
        self.now = self.spent = self.plain = 0.0

    def ask(self, payload, *, gap=20.0):
        """The block up to which we expected to read, and the one up to which we did."""
        hinted = self.hinter.look(
            payload,
            endpoint="anthropic.messages",
            model=MODEL,
            scope="somebody",
            headers=(),
            facts=FACTS,
            now=self.now,
        )
        computed, read, written, hit = self.cache.ask(dict(hinted.payload), self.now)
        self.spent += cost(computed, read, written)
        self.plain += computed + read + sum(written.values())
        hinted.begun(self.now)
        attempt = Attempt(1, Origin("http", "a", 80), self.now, Timeline())
        attempt.usage = Usage(uncached=computed, cache_read=read, cache_write=written, output=1)
        self.report = hinted.ended(attempt, is_failed=False, now=self.now + 1.0)
        self.now += gap
        return -1 if hinted.plan.hit is None else hinted.plan.hit, hit


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),  # which conversation
        st.sampled_from([5.0, 200.0, 310.0, 3000.0, 4000.0]),
        st.sampled_from(["words", "tools", "many"]),
    ),
    min_size=1,
    max_size=20,
)


def play_out(run, steps):
    """Conversations that share one of two system prompts, step by step."""
    said = {number: [f"I am {number} and begin. " * 60] for number in range(3)}
    turns = {number: messages(*contents)["messages"] for number, contents in said.items()}
    for number, gap, kind in steps:
        payload = {"model": MODEL, "system": f"{number % 2} {LONG}", "messages": turns[number]}
        yield run.ask(payload, gap=gap)
        name = f"{number}_{len(turns[number])}_"
        if kind == "words":
            more = messages("", "told " * 60, f"asked {name} " * 60)["messages"][1:]
        else:
            more = agent_turn(name, calls=3 if kind == "tools" else 40)
        turns[number] = turns[number] + more


@pytest.mark.parametrize("mode", ["cautious", "full"])
@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_what_is_expected_to_be_read_is_read(mode, steps):
    for expected, hit in play_out(Run(mode), steps):
        assert expected == hit


def agent(run, turns, *, gap=15.0):
    """Tools, a system prompt, and turns of one call of a tool each."""
    said = messages("Do it. " * 40)["messages"]
    tools = [{"name": f"t{n}", "description": "what it does " * 60} for n in range(5)]
    for turn in range(turns):
        run.ask({"model": MODEL, "tools": tools, "system": LONG, "messages": said}, gap=gap)
        said = said + agent_turn(f"turn_{turn}_")
    return run


@pytest.mark.parametrize(
    ("mode", "most"),
    [pytest.param("cautious", 0.3, id="cautious"), pytest.param("full", 0.2, id="full")],
)
def test_an_agent_of_thirty_turns_costs_a_fraction(mode, most):
    run = agent(Run(mode), 30)

    assert run.spent < most * run.plain


@pytest.mark.parametrize("mode", ["cautious", "full"])
def test_what_is_never_repeated_costs_next_to_nothing_more(mode):
    run = Run(mode)
    for number in range(40):
        run.ask({"model": MODEL, **messages(f"{number} " * 900, system=f"{number} {LONG}")})

    assert run.spent <= 1.03 * run.plain


@pytest.mark.parametrize("mode", ["cautious", "full"])
def test_pairs_of_calls_cost_little_more_once_they_are_known(mode):
    """The worst there is: each conversation ends just when it was marked."""
    run = Run(mode)
    for number in range(60):
        system = f"{number} {LONG}"
        run.ask({"model": MODEL, **messages("one " * 60, system=system)})
        run.ask({"model": MODEL, **messages("one " * 60, "yes", "two", system=system)})

    assert run.spent <= 1.03 * run.plain


@pytest.mark.parametrize("mode", ["cautious", "full"])
@pytest.mark.parametrize("seed", range(4))
def test_a_day_of_mixed_calls_is_cheaper(mode, seed):
    run, chance = Run(mode), random.Random(seed)
    turns = {number: messages(f"{number} begins. " * 60)["messages"] for number in range(12)}
    for _ in range(150):
        number = chance.randrange(12)
        run.ask(
            {"model": MODEL, "system": f"{number % 3} {LONG}", "messages": turns[number]},
            gap=chance.expovariate(1 / 20.0),
        )
        turns[number] = turns[number] + messages("", "told " * 30, "asked " * 30)["messages"][1:]

    assert run.spent < 0.5 * run.plain


def test_a_provider_that_loses_what_it_holds_is_trusted_less():
    run = Run("full")
    for number in range(30):
        run.cache.ends.clear()
        run.ask({"model": MODEL, **messages(f"{number} " * 40, system=LONG)})

    assert run.spent <= 1.1 * run.plain
    assert run.report.placed == ()
