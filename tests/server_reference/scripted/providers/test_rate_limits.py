"""Token buckets per key, as either provider counts them and says so."""

from __future__ import annotations

import pytest

from server_reference.scripted.clock import ManualClock
from server_reference.scripted.providers.rate_limits import Admission, Limits, RateLimits
from server_reference.scripted.providers.refusals import Refusal
from server_reference.scripted.request import Received
from tests.server_reference.scripted.providers.requests import chat, messages, responses


@pytest.fixture
def clock():
    return ManualClock(0.0)


def admit(limits, received, input_tokens=0, cache_read=0):
    admitted = limits.admit(received, input_tokens=input_tokens, cache_read=cache_read)
    assert isinstance(admitted, Admission), admitted
    return admitted


def refused(limits, received, input_tokens=0):
    answer = limits.admit(received, input_tokens=input_tokens)
    assert isinstance(answer, Refusal)
    return answer


def test_requests_beyond_the_limit_are_refused_until_the_bucket_has_risen(clock):
    limits = RateLimits(clock, Limits(requests_per_minute=2))
    admit(limits, messages("a"))
    admit(limits, messages("b"))

    answer = refused(limits, messages("c"))
    clock.advance(30)

    assert (answer.status, answer.headers["retry-after"]) == (429, "30")
    admit(limits, messages("c"))


def test_waiting_as_long_as_was_asked_is_enough(clock):
    limits = RateLimits(clock, Limits(requests_per_minute=7, form="ms"))
    for _ in range(7):
        admit(limits, chat("a"))

    clock.advance(int(refused(limits, chat("a")).headers["retry-after-ms"]) / 1000)

    admit(limits, chat("a"))


def test_anthropic_says_what_is_left_with_moments(clock):
    limits = RateLimits(
        clock,
        Limits(
            requests_per_minute=60,
            tokens_per_minute=6000,
            input_tokens_per_minute=600,
            output_tokens_per_minute=100,
        ),
    )

    headers = admit(limits, messages("a"), input_tokens=300).headers()

    assert headers == {
        "anthropic-ratelimit-requests-limit": "60",
        "anthropic-ratelimit-requests-remaining": "59",
        "anthropic-ratelimit-requests-reset": "1970-01-01T00:00:01Z",
        "anthropic-ratelimit-tokens-limit": "6000",
        "anthropic-ratelimit-tokens-remaining": "5700",
        "anthropic-ratelimit-tokens-reset": "1970-01-01T00:00:03Z",
        "anthropic-ratelimit-input-tokens-limit": "600",
        "anthropic-ratelimit-input-tokens-remaining": "300",
        "anthropic-ratelimit-input-tokens-reset": "1970-01-01T00:00:30Z",
        "anthropic-ratelimit-output-tokens-limit": "100",
        "anthropic-ratelimit-output-tokens-remaining": "100",
        "anthropic-ratelimit-output-tokens-reset": "1970-01-01T00:00:00Z",
    }


def test_openai_says_what_is_left_with_durations(clock):
    limits = RateLimits(clock, Limits(requests_per_minute=5000, tokens_per_minute=1000))

    headers = admit(limits, chat("a"), input_tokens=100).headers()

    assert headers == {
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "900",
        "x-ratelimit-reset-tokens": "6s",
    }


def test_a_refusal_says_what_is_left_too(clock):
    limits = RateLimits(clock, Limits(requests_per_minute=1))
    admit(limits, chat("a"))

    assert refused(limits, chat("b")).headers["x-ratelimit-remaining-requests"] == "0"


def test_anthropic_does_not_count_what_was_read_from_the_cache(clock):
    limits = RateLimits(clock, Limits(input_tokens_per_minute=1000))

    headers = admit(limits, messages("a"), input_tokens=9000, cache_read=8900).headers()

    assert headers["anthropic-ratelimit-input-tokens-remaining"] == "900"


def test_openai_counts_it(clock):
    limits = RateLimits(clock, Limits(tokens_per_minute=10_000))

    headers = admit(limits, chat("a"), input_tokens=9000, cache_read=8900).headers()

    assert headers["x-ratelimit-remaining-tokens"] == "1000"


@pytest.mark.parametrize(
    "received",
    [
        chat("a", max_tokens=400),
        chat("a", max_completion_tokens=400),
        responses("a", max_output_tokens=400),
    ],
    ids=["max_tokens", "max_completion_tokens", "max_output_tokens"],
)
def test_openai_charges_the_longest_answer_before_it_is_generated(clock, received):
    limits = RateLimits(clock, Limits(tokens_per_minute=1000))
    admission = admit(limits, received, input_tokens=100)

    admission.settle(5)

    assert admission.headers()["x-ratelimit-remaining-tokens"] == "500"


def test_anthropic_charges_output_once_it_is_generated(clock):
    limits = RateLimits(clock, Limits(output_tokens_per_minute=100, tokens_per_minute=1000))
    admission = admit(limits, messages("a", max_tokens=5000))

    admission.settle(70)

    headers = admission.headers()
    assert headers["anthropic-ratelimit-output-tokens-remaining"] == "30"
    assert headers["anthropic-ratelimit-tokens-remaining"] == "930"


def test_more_output_than_was_left_makes_the_next_request_wait(clock):
    limits = RateLimits(clock, Limits(output_tokens_per_minute=60))
    admit(limits, messages("a")).settle(80)

    answer = refused(limits, messages("b"))

    assert answer.headers["retry-after"] == "21"
    assert answer.headers["anthropic-ratelimit-output-tokens-remaining"] == "0"


def test_a_refused_request_takes_nothing(clock):
    limits = RateLimits(clock, Limits(requests_per_minute=10, tokens_per_minute=100))

    answer = refused(limits, chat("a"), input_tokens=101)

    assert answer.headers["x-ratelimit-remaining-requests"] == "10"
    assert "a single request may take 100: send less" in answer.body["error"]["message"]


@pytest.mark.parametrize(
    ("limits", "received", "type_"),
    [
        (Limits(requests_per_minute=1), chat("a"), "requests"),
        (Limits(tokens_per_minute=10), chat("a"), "tokens"),
        (Limits(tokens_per_minute=10), messages("a"), "rate_limit_error"),
    ],
    ids=["openai requests", "openai tokens", "anthropic"],
)
def test_the_error_says_which_limit_it_was(clock, limits, received, type_):
    buckets = RateLimits(clock, limits)
    admit(buckets, received, input_tokens=10)

    answer = refused(buckets, received, input_tokens=10)

    assert answer.body["error"]["type"] == type_
    assert "0 left" in answer.body["error"]["message"]


def test_each_key_has_limits_of_its_own(clock):
    rich = Limits(requests_per_minute=100)
    limits = RateLimits(clock, Limits(requests_per_minute=1, by_key={"sk-rich": rich}))

    admit(limits, chat("a", key="sk-1"))
    admit(limits, chat("a", key="sk-2"))
    headers = admit(limits, chat("a", key="sk-rich")).headers()

    assert headers["x-ratelimit-remaining-requests"] == "99"


def test_keys_of_one_workspace_share_their_limits(clock):
    limits = RateLimits(clock, Limits(requests_per_minute=1, workspaces={"a": "w", "b": "w"}))
    admit(limits, chat("hi", key="a"))

    refused(limits, chat("hi", key="b"))


def test_a_429_takes_the_form_that_was_asked_for(clock):
    limits = RateLimits(
        clock, Limits(requests_per_minute=1, form="imf_fixdate", should_retry=False)
    )
    admit(limits, chat("a"))

    headers = refused(limits, chat("b")).headers

    assert headers["retry-after"] == "Thu, 01 Jan 1970 00:01:00 GMT"
    assert headers["x-should-retry"] == "false"


def test_another_endpoint_is_not_limited(clock):
    limits = RateLimits(clock, Limits(requests_per_minute=1))
    models = Received("GET", "/v1/models")

    for _ in range(3):
        assert admit(limits, models).headers() == {}
    assert limits.headers(models) == {}


def test_clearing_fills_every_bucket(clock):
    limits = RateLimits(clock, Limits(requests_per_minute=1))
    admit(limits, chat("a"))

    limits.clear()

    admit(limits, chat("b"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"requests_per_minute": 0}, "requests_per_minute must be at least 1, not 0"),
        ({"form": "date"}, "'date' is no form of retry-after"),
    ],
)
def test_limits_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Limits(**fields)
