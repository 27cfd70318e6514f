"""What the committed run of an agent costs under each way to use the prompt cache."""

from __future__ import annotations

import json

import pytest

from benchmarks import caching
from benchmarks.agent_run import anthropic_steps, openai_steps
from benchmarks.figures import RESULTS

ANTHROPIC = caching.Case("anthropic", anthropic_steps)
NOTHING = caching.Way("nothing")


def silent(text):
    """Takes no note of progress."""


@pytest.fixture(scope="module")
def without_hints():
    return caching.tally(ANTHROPIC, "claude-sonnet-5-5", 30, NOTHING)


@pytest.mark.parametrize(("hints", "most"), [("cautious", 0.16), ("full", 0.12)])
def test_an_agents_run_costs_a_fraction_of_what_it_costs_without_marks(without_hints, hints, most):
    ours = caching.tally(ANTHROPIC, "claude-sonnet-5-5", 30, caching.Way("ours", hints=hints))

    assert ours.input_tokens == without_hints.input_tokens
    assert ours.dollars / without_hints.dollars < most  # the bar is 0.35


def test_both_forms_of_the_run_ask_for_the_same():
    for ours, theirs in zip(anthropic_steps(), openai_steps(), strict=True):
        assert ours.answer == theirs.answer
        told = {result["call_id"] for result in theirs.request["input"] if "output" in result}
        blocks = [each for one in ours.request["messages"] for each in one["content"]]
        assert told == {each["tool_use_id"] for each in blocks if each["type"] == "tool_result"}


def test_every_way_of_every_vendor_is_played():
    outcome = caching.run(caching.QUICK, silent)

    ratios = {one.name: one.value for one in outcome.figures}
    assert len(ratios) == 11
    assert all(0 < value < 1.3 for value in ratios.values())
    assert all(facts["dollars"] > 0 for facts in outcome.facts.values())


@pytest.mark.long
def test_the_figures_that_are_kept_are_those_of_this_code():
    outcome = caching.run(caching.Sizes(), silent)

    kept = json.loads((RESULTS / "caching.json").read_text())["figures"]
    assert {one.name: one.value for one in outcome.figures} == pytest.approx(
        {one["name"]: one["value"] for one in kept}
    )
