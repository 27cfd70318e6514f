"""Rate limits in virtual time: windows that refill while the client waits, told by both ends."""

from __future__ import annotations

from datetime import datetime

import pytest

from server_reference.scripted.providers import Limits
from tests.end_to_end.virtual_calls import APIS, gaps

EXACT = ["fraction", "ms"]


def last_reply(server):
    server.settle()
    return server.journal.entries()[-1].reply_header


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("form", EXACT)
@pytest.mark.parametrize("per_minute", [1, 3, 6])
def test_a_request_too_many_waits_until_one_is_there_again(shared, api, form, per_minute):
    server = shared.serve(rate_limits=Limits(requests_per_minute=per_minute, form=form))
    for _ in range(per_minute):
        shared.ask(api)
    server.forget()
    before = shared.clock.now()

    outcome = shared.ask(api)

    assert [one.status for one in outcome.report.attempts] == [429, 200]
    assert shared.clock.now() - before == pytest.approx(60 / per_minute, abs=2e-3)
    assert gaps(server) == pytest.approx([60 / per_minute], abs=2e-3)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("form", [*EXACT, "seconds", "both", "imf_fixdate"])
def test_tokens_are_waited_for_as_long_as_the_server_says(shared, api, form):
    server = shared.serve(rate_limits=Limits(tokens_per_minute=600, form=form))
    asked = long_request(api, 500)
    shared.ask(api, **asked)

    report = shared.ask(api, **asked).report

    assert [one.status for one in report.attempts] == [429, 200]
    (wait,) = gaps(server)[1:]
    assert 30 < wait == pytest.approx(report.stages["backoff"].duration, abs=1e-6)


def long_request(api, num_tokens):
    text = "word" * num_tokens
    turns = [{"role": "user", "content": text}]
    return {"input": text} if api == "responses" else {"messages": turns}


@pytest.mark.parametrize("form", EXACT)
def test_output_is_charged_once_it_was_generated(shared, form):
    """Anthropic's bucket goes below zero, and the next call waits it out."""
    server = shared.serve("word " * 40, rate_limits=Limits(output_tokens_per_minute=30, form=form))
    shared.ask()

    report = shared.ask().report

    assert [one.status for one in report.attempts] == [429, 200]
    assert gaps(server)[1] == pytest.approx(42.0, abs=2e-3)


@pytest.mark.parametrize(("seconds", "left"), [(0, 5), (1, 5), (10, 6), (20, 8), (25, 9), (61, 9)])
def test_anthropic_tells_what_is_left_and_when_it_is_full(shared, seconds, left):
    server = shared.serve(rate_limits=Limits(requests_per_minute=10))
    shared.clock.advance(0.25)
    for _ in range(4):
        shared.ask()
    shared.clock.advance(seconds)

    shared.ask()

    header = last_reply(server)
    assert header("anthropic-ratelimit-requests-limit") == "10"
    assert header("anthropic-ratelimit-requests-remaining") == str(left)
    full = datetime.fromisoformat(header("anthropic-ratelimit-requests-reset")).timestamp()
    assert 0 <= full - (shared.clock.now() + max(30 - seconds, 6)) < 1


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    ("seconds", "left", "reset"),
    [
        (0, 5, "30s"),
        (1, 5, "29s"),
        (10, 6, "20s"),
        (15.5, 7, "14.5s"),
        (24, 9, "6s"),
        (60, 9, "6s"),
    ],
)
def test_openai_tells_what_is_left_and_how_long_until_it_is_full(shared, api, seconds, left, reset):
    server = shared.serve(rate_limits=Limits(requests_per_minute=10))
    for _ in range(4):
        shared.ask(api)
    shared.clock.advance(seconds)

    shared.ask(api)

    header = last_reply(server)
    assert header("x-ratelimit-limit-requests") == "10"
    assert header("x-ratelimit-remaining-requests") == str(left)
    assert header("x-ratelimit-reset-requests") == reset


@pytest.mark.parametrize("api", APIS)
def test_a_window_that_refills_too_late_ends_the_call(shared, api):
    server = shared.serve(rate_limits=Limits(requests_per_minute=1))
    shared.ask(api)
    before = shared.clock.now()

    outcome = shared.ask(api, client={"max_wait": 59.0})

    assert outcome.error is not None
    assert shared.clock.now() == before
    assert len(server.journal.entries()) == 2
