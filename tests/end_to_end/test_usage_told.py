"""Tokens and dollars of a report, whatever a provider says of them, over real connections.

The dollars are added up here by hand, from the prices in `usage_callers.py`.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

import server_reference
from server_reference.scripted import Answer, fault, rule
from tests.end_to_end.usage_callers import APIS, callers

pytestmark = pytest.mark.sdk

ANSWER = Answer("Hello big wide world")
MILLION = Decimal(1_000_000)


def playing(name, **parameters):
    return server_reference.scripted(ANSWER | fault(name, **parameters))


@callers(*APIS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_cached_tokens_are_counted_and_billed_once(caller, stream):
    """litellm#9812: 0.0913 in place of 0.0544 dollars."""
    with playing("cached_usage", uncached=3, read=500, write=12_304, output=550) as server:
        report = caller.report(server, stream=stream)

    usage, ttl = report.usage, "5m" if caller.api == "messages" else "30m"
    assert (usage.uncached, usage.cache_read, usage.output) == (3, 500, 550)
    assert (dict(usage.cache_write), usage.input_tokens) == ({ttl: 12_304}, 12_807)
    written = 12_304 * (Decimal("1.25") if ttl == "5m" else Decimal("1.5"))
    assert report.exact_cost == (3 + 50 + written + 1100) / MILLION
    assert report.cost == float(report.exact_cost)


@callers(*APIS)
def test_reasoning_is_part_of_the_output(caller):
    """pydantic-ai PR#6244."""
    with playing("reasoning_usage", output=100, reasoning=80) as server:
        report = caller.report(server)

    assert (report.usage.output, report.usage.reasoning) == (100, 80)
    assert report.exact_cost == (7 + 200) / MILLION


@callers(*APIS)
def test_zero_is_a_count(caller):
    """openllmetry PR#3142."""
    with playing("zero_usage") as server:
        report = caller.report(server, stream=False)

    assert (report.usage.uncached, report.usage.output, report.cost) == (0, 0, 0.0)


@callers(*APIS)
def test_counts_that_nobody_told_are_unknown_and_cost_something(caller):
    """litellm#14457."""
    with playing("no_usage") as server:
        report = caller.report(server)

    assert report.usage is report.cost is report.cost_at_least is None
    assert report.cost_missing == ("usage",)


@callers(*APIS)
def test_counts_of_null_are_unknown(caller):
    with playing("null_usage") as server:
        report = caller.report(server, stream=False)

    assert report.usage.uncached is report.usage.output is report.cost is None
    assert report.cost_missing == ("input tokens", "output tokens")


@callers("messages")
def test_counts_that_grow_are_not_added(caller):
    """agent-framework#7143."""
    with playing("cached_usage", uncached=9, write=0, output=15) as server:
        once = caller.report(server)
    both = ANSWER | fault("cached_usage", uncached=9, write=0, output=15)
    with server_reference.scripted(both | fault("cumulative_usage", steps=3)) as server:
        often = caller.report(server)

    assert often.usage == once.usage
    assert (often.usage.output, often.usage.is_final) == (15, True)


@callers("chat")
@pytest.mark.parametrize(
    ("name", "output"),
    [("usage_after_finish", 5), ("usage_then_null", 5), ("usage_on_every_chunk", 5)],
)
def test_the_last_counts_of_a_chat_are_the_ones(caller, name, output):
    with playing(name) as server:
        report = caller.report(server)

    assert (report.usage.uncached, report.usage.output) == (7, output)
    assert report.exact_cost == (7 + 2 * output) / MILLION


@callers("messages")
@pytest.mark.parametrize(
    ("name", "leave"),
    [pytest.param("cut_after", None, id="cut"), pytest.param("stall_after", 3, id="left")],
)
def test_a_stream_that_ends_early_used_at_least_what_came(caller, name, leave):
    """The 1 of message_start is a placeholder (litellm#34147)."""
    with playing(name, events=6) as server:
        report = caller.report(server, leave=leave)

    usage = report.usage
    assert not usage.is_final
    assert usage.output == 3 or leave  # of a stream that was left, how far it had come
    assert (report.cost, report.cost_missing) == (None, ("final output tokens",))
    assert report.cost_at_least == float((usage.input_tokens + 2 * usage.output) / MILLION)


@callers("chat", "responses")
def test_a_stream_that_ends_before_its_counts_has_none(caller):
    with playing("cut_after", events=6) as server:
        report = caller.report(server)

    assert report.usage is None
    assert report.cost_missing == ("usage",)


@callers("messages")
def test_an_attempt_that_failed_after_it_told_tokens_counts(caller):
    """instructor#1105: only the last attempt was counted."""
    flaky = [fault("overloaded_as_api_error", after=1), ANSWER]
    with server_reference.scripted(rule(flaky)) as server:
        report = caller.report(server)

    first, second = (one.usage for one in report.attempts)
    assert report.usage == first.plus(second)
    assert (first.is_final, second.is_final) == (False, True)
    assert report.cost_missing == ("attempt 1: final output tokens",)


@callers(*APIS)
def test_an_attempt_that_was_refused_costs_nothing(caller):
    flaky = [fault("refused_status", status=429, retry_after=0), ANSWER]
    with server_reference.scripted(rule(flaky)) as server:
        report = caller.report(server, stream=False)

    assert [one.usage is None for one in report.attempts] == [True, False]
    used = report.usage
    assert report.exact_cost == (used.input_tokens + 2 * used.output) / MILLION
