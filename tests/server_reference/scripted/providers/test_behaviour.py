"""Limits and cache together, as a server calls them."""

from __future__ import annotations

import json

import pytest

from server_reference.scripted.answers import Answer, ErrorAnswer, Usage
from server_reference.scripted.clock import ManualClock
from server_reference.scripted.ops import Body, Head
from server_reference.scripted.providers.behaviour import Behaviour
from server_reference.scripted.providers.cache_rules import CacheRules
from server_reference.scripted.providers.rate_limits import Limits
from server_reference.scripted.request import Received
from tests.server_reference.scripted.providers.requests import chat, marked, messages, text

SYSTEM = [marked(text(1000))]


@pytest.fixture
def clock():
    return ManualClock(0.0)


def call(behaviour, received, answer=None, *, status=200):
    """A whole call: the usage that it was told."""
    refused = behaviour.answer(received)
    assert refused is None, refused
    usage = behaviour.usage(received, answer or Answer("four"))
    behaviour.wrote(received, Head(status), 0)
    behaviour.wrote(received, Body(b"x"), 1)
    behaviour.ended(received, "complete")
    return usage


def test_a_call_is_told_what_it_read_and_wrote(clock):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())

    first = call(behaviour, messages("hi!!", system=SYSTEM))
    second = call(behaviour, messages("hi!!", system=SYSTEM), Answer(["four", "four"]))

    assert first == Usage(uncached=1, cache_write={"5m": 1000}, output=1)
    assert second == Usage(uncached=1, cache_read=1000, output=2)


@pytest.mark.parametrize(
    ("model", "told"), [("gpt-5.6", {"30m": 0}), ("gpt-5.1", {})], ids=["tells-writes", "older"]
)
def test_nothing_written_is_told_where_writes_are(clock, model, told):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())

    for _ in range(2):
        usage = call(behaviour, chat(text(2000), model=model))

    assert usage.cache_write == told


def test_thinking_and_tool_calls_count_as_output(clock):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())
    tool = {"name": "tool", "arguments": {"a": 1}}

    usage = call(behaviour, messages("hi!!"), Answer(thinking="hmm.", tool_calls=[tool]))

    assert usage.output == 1 + 1 + 2


def test_an_answer_that_says_its_usage_is_left_alone(clock):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())

    assert call(behaviour, messages("hi"), Answer("x", usage=Usage(output=9))) is None


def test_diagnostics_travel_with_the_usage(clock):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())

    usage = call(behaviour, messages("hi", diagnostics={"previous_message_id": None}))

    assert usage.reply_fields == {"diagnostics": None}


def test_an_error_in_the_place_of_the_answer_writes_nothing(clock):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())
    call(behaviour, messages("hi!!", system=SYSTEM), status=500)

    assert call(behaviour, messages("hi!!", system=SYSTEM)).cache_read == 0


def test_a_request_that_ends_in_an_error_has_still_used_what_it_read(clock):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())
    call(behaviour, messages("hi!!", system=SYSTEM))
    clock.advance(240)
    call(behaviour, messages("hi!!", system=SYSTEM, at=240.0), status=500)
    clock.advance(240)

    assert call(behaviour, messages("hi!!", system=SYSTEM, at=480.0)).cache_read == 1000


def test_a_rules_error_writes_nothing(clock):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())
    request = messages("hi!!", system=SYSTEM)
    behaviour.answer(request)
    behaviour.wrote(request, Head(200), 0)  # no usage was asked for: no answer is played
    behaviour.ended(request, "complete")

    assert call(behaviour, messages("hi!!", system=SYSTEM)).cache_read == 0


def test_a_broken_rule_of_the_cache_is_the_providers_400(clock):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())

    answer = behaviour.answer(messages("hi", system=[marked("x")] * 5))

    assert isinstance(answer, ErrorAnswer)
    assert answer.status == 400
    assert json.loads(answer.body or b"")["error"]["type"] == "invalid_request_error"


def test_a_prewarming_is_answered_without_a_rule(clock):
    behaviour = Behaviour(clock, prompt_cache=CacheRules())
    request = messages("wait", system=SYSTEM, max_tokens=0)

    answer = behaviour.answer(request)

    assert answer == Answer()
    assert behaviour.usage(request, answer).output == 0


def test_a_request_beyond_the_limit_is_refused_and_says_so_once(clock):
    """The server adds `headers` to every reply: the error does not repeat them."""
    behaviour = Behaviour(clock, rate_limits=Limits(requests_per_minute=1))
    call(behaviour, chat("hi"))
    request = chat("hi")

    answer = behaviour.answer(request)

    assert isinstance(answer, ErrorAnswer)
    assert answer.headers == {"retry-after": "60"}
    assert ("x-ratelimit-remaining-requests", "0") in behaviour.headers(request)


def test_a_refused_request_refreshes_nothing(clock):
    behaviour = Behaviour(
        clock,
        prompt_cache=CacheRules(),
        rate_limits=Limits(input_tokens_per_minute=1002, requests_per_minute=1),
    )
    call(behaviour, messages("hi!!", system=SYSTEM))
    clock.advance(30)
    assert behaviour.answer(messages("hi!!", system=SYSTEM, at=30.0)) is not None
    clock.advance(270)

    assert call(behaviour, messages("hi!!", system=SYSTEM, at=300.0)).cache_read == 0


def test_what_the_cache_holds_counts_as_each_provider_counts_it(clock):
    behaviour = Behaviour(
        clock,
        prompt_cache=CacheRules(),
        rate_limits=Limits(input_tokens_per_minute=5000, tokens_per_minute=5000),
    )
    for _ in range(3):
        call(behaviour, messages("hi!!", system=SYSTEM))
        call(behaviour, chat(text(1100)))

    anthropic = dict(behaviour.headers(messages("x")))
    openai = dict(behaviour.headers(chat("x")))
    assert anthropic["anthropic-ratelimit-input-tokens-remaining"] == "3997"
    assert openai["x-ratelimit-remaining-tokens"] == "1700"


def test_output_is_charged_when_the_reply_ends(clock):
    behaviour = Behaviour(clock, rate_limits=Limits(output_tokens_per_minute=100))

    call(behaviour, messages("hi"), Answer("x", usage=Usage(output=40)))

    headers = dict(behaviour.headers(messages("hi")))
    assert headers["anthropic-ratelimit-output-tokens-remaining"] == "60"


def test_without_a_cache_the_bodys_length_is_the_input(clock):
    behaviour = Behaviour(clock, rate_limits=Limits(tokens_per_minute=1000))
    request = chat(text(100))

    assert call(behaviour, request) is None
    left = 1000 + -len(request.body) // 4
    assert ("x-ratelimit-remaining-tokens", f"{left}") in behaviour.headers(request)


def test_other_endpoints_are_left_to_the_rules(clock):
    behaviour = Behaviour(
        clock, rate_limits=Limits(requests_per_minute=1), prompt_cache=CacheRules()
    )
    models = Received("GET", "/v1/models")

    assert behaviour.answer(models) is None
    assert behaviour.usage(models, Answer()) is None
    assert list(behaviour.headers(models)) == []


def test_clearing_begins_anew(clock):
    behaviour = Behaviour(
        clock, rate_limits=Limits(requests_per_minute=1), prompt_cache=CacheRules()
    )
    call(behaviour, messages("hi!!", system=SYSTEM))

    behaviour.reset()

    assert call(behaviour, messages("hi!!", system=SYSTEM)).cache_read == 0
