"""What calls against a prompt cache used, cost and hold of a budget, when they go wrong too."""

from __future__ import annotations

import contextlib
from decimal import Decimal

import anthropic
import openai
import pytest

import smartclient
from server_reference.scripted import Answer, ErrorAnswer, fault, rule
from server_reference.scripted.providers import refusal
from tests.end_to_end.cache_proof import NANO, says, tokens, told, ways

pytestmark = pytest.mark.sdk

SYSTEM = "rule by rule " * 600
HEAD = 1950
TURN = [says("user", "Hello there")]
WHOLE = HEAD + tokens("Hello there")
SDK_ERRORS = (anthropic.AnthropicError, openai.OpenAIError, OSError)
LIMIT = {"messages": {"max_tokens": 20}, "chat": {"max_completion_tokens": 20}}
LIMIT["responses"] = {"max_output_tokens": 20}


def failed(one, **more):
    """The report of a call that fails; not every SDK raises what a stream says of it."""
    with contextlib.suppress(smartclient.SmartClientError, *SDK_ERRORS):
        one.say(SYSTEM, TURN, **LIMIT[one.api], **more)
    assert one.reports[-1].error is not None
    return one.reports[-1]


def standing(one):
    """Nanodollars and requests that are spent, and what is held."""
    state = one.budget.state()
    return round(state.spent["dollars"] * 1e9), state.spent["requests"], state.held["tokens"]


# Both vocabularies.


@ways("messages", "chat", "responses")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_is_read_and_written_is_counted_once_in_each_vocabulary(proof, api, way, stream):
    one = proof(api, way=way)

    reports = [one.say(SYSTEM, TURN, stream=stream) for _ in range(3)]

    assert [each.usage.input_tokens for each in reports] == [WHOLE] * 3
    assert told(reports[2]).read >= HEAD
    assert [each.usage.is_final for each in reports] == [True] * 3


@ways("messages", "chat", "responses")
def test_what_a_call_saves_in_dollars_is_what_it_cost_less(proof, api, way):
    plain, hinted = proof(api, way=way, hints="off"), proof(api, way=way)
    for one in (plain, hinted):
        for number in range(4):
            one.say(SYSTEM, [says("user", f"{number}?")])
            one.clock.advance(20)

    if api == "messages":  # whose plain form writes nothing
        saved = sum(Decimal(str(one.cache.savings)) for one in hinted.reports)
        cost = [sum(each.exact_cost for each in one.reports) for one in (plain, hinted)]
        assert saved == cost[0] - cost[1]
    assert hinted.ledger.total().savings == sum(
        Decimal(str(each.cache.savings)) for each in hinted.reports
    )


# Streams that end early.


def cut(api):
    """After content, and before any usage of the output."""
    events = 8 if api == "responses" else 4
    return Answer("Hello big wide world " * 20) | fault("cut_after", events=events)


@ways("messages", "chat", "responses")
def test_a_stream_that_is_cut_costs_what_it_may_have_cost(proof, api, way):
    one = proof(api, way=way, answer=cut(api))

    report = failed(one, stream=True)

    spent, requests, held = standing(one)
    assert (requests, held, report.cost) == (1, 0, None)
    assert spent >= WHOLE * 4000 + 20 * 20_000  # the input, and the longest answer
    assert one.ledger.total().unpriced == 1


@ways("messages")
def test_a_stream_that_told_its_input_before_it_was_cut_tells_of_the_cache(proof, api, way):
    one = proof(api, way=way, answer=cut(api))

    report = failed(one, stream=True)

    assert (report.cache.actual_read, told(report).written) == (0, {"5m": HEAD})
    assert not report.usage.is_final


@ways("chat", "responses")
def test_a_stream_that_told_nothing_claims_no_miss(proof, api, way):
    report = failed(proof(api, way=way, answer=cut(api)), stream=True)

    cache = report.cache
    assert (cache.actual_read, cache.miss, cache.savings, report.usage) == (None, None, None, None)


@ways("messages", "chat", "responses")
def test_an_error_in_the_middle_of_a_stream_is_paid_and_told(proof, api, way):
    error = ErrorAnswer(status=529, message="Overloaded")
    one = proof(api, way=way, answer=Answer("Hello big wide world", error=error))

    report = failed(one, stream=True)

    spent, requests, held = standing(one)
    assert (requests, held, len(report.attempts)) == (1, 0, 1)
    assert spent >= WHOLE * 4000
    assert report.cost is None


@ways("messages", "responses")
def test_what_a_broken_stream_wrote_is_read_by_the_next_call(proof, api, way):
    answers = [rule(cut(api), times=1), rule("Fine.")]
    one = proof(api, way=way, answer=answers)

    failed(one, stream=True)
    one.clock.advance(20)

    assert told(one.say(SYSTEM, TURN)).read >= HEAD


# Refusals.


def money(api):
    name = "enforced_spend_limit_reached" if api == "messages" else "credit_balance_exhausted"
    return refusal(name, retry_after=5).answer()


def rate(api, seconds=5.0):
    name = "rate_limit_error" if api == "messages" else "rate_limit_exceeded"
    return refusal(name, retry_after=seconds).answer()


@ways("messages", "chat", "responses")
def test_a_429_about_money_is_final_and_free(proof, api, way):
    one = proof(api, way=way, answer=money(api), refuses=(429,))
    begun = one.clock.now()

    report = failed(one)

    assert (report.status, len(report.attempts)) == (429, 1)
    assert (standing(one), one.clock.now() - begun) == ((0, 0, 0), pytest.approx(0, abs=1))


@ways("messages", "chat", "responses")
def test_a_429_about_the_pace_is_waited_for_and_billed_once(proof, api, way):
    answers = [rule(rate(api), times=2), rule("Fine.")]
    one = proof(api, way=way, answer=answers, refuses=(429,))
    begun = one.clock.now()

    report = one.say(SYSTEM, TURN)

    assert [each.status for each in report.attempts] == [429, 429, 200]
    assert one.clock.now() - begun == pytest.approx(10, abs=0.5)
    assert standing(one) == (report.exact_cost / NANO, 1, 0)
    assert report.usage.input_tokens == WHOLE


@ways("messages", "chat")
def test_each_attempt_carries_the_same_marks(proof, api, way):
    answers = [rule(rate(api), times=2), rule("Fine.")]
    one = proof(api, way=way, answer=answers, refuses=(429,))

    one.say(SYSTEM, TURN)

    bodies = [entry.body for entry in one.server.journal.entries()]
    assert len(set(bodies)) == 1
    assert one.marks()


@ways("messages", "chat")
def test_a_wait_of_an_hour_ends_the_call_at_once(proof, api, way):
    one = proof(api, way=way, answer=rate(api, 3600), refuses=(429,))
    begun = one.clock.now()

    report = failed(one)

    assert (len(report.attempts), standing(one)) == (1, (0, 0, 0))
    assert one.clock.now() - begun < 1


@ways("messages", "chat")
def test_a_500_that_says_no_is_not_sent_again(proof, api, way):
    name = "api_error" if api == "messages" else "server_error"
    answer = refusal(name, should_retry=False).answer()
    one = proof(api, way=way, answer=answer, refuses=(500,))

    report = failed(one)

    assert (len(report.attempts), report.status, standing(one)) == (1, 500, (0, 0, 0))


@ways("messages", "chat")
def test_a_refused_call_wrote_nothing_that_the_next_could_read(proof, api, way):
    name = "api_error" if api == "messages" else "server_error"
    down = rule(refusal(name, should_retry=False).answer(), times=1)
    one = proof(api, way=way, answer=[down, rule("Fine.")], refuses=(500,))

    failed(one)
    one.clock.advance(20)
    report = one.say(SYSTEM, TURN)

    assert (report.cache.predicted_read, told(report).read) == (0, 0)
    assert report.cache.miss == "cold_first"


def test_a_budget_without_room_sends_nothing_and_marks_nothing(proof):
    one = proof(budgets=[smartclient.Budget(tokens=100)], refuses=(402,))

    with pytest.raises(smartclient.BudgetExceededError):
        one.say(SYSTEM, TURN)

    assert (one.bodies(), one.reports[0].attempts) == ([], [])
