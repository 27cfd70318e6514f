"""Retries in virtual time: what a client waits, on a clock that it shares with the server."""

from __future__ import annotations

import pytest
from tenacity.stop import stop_after_delay, stop_before_delay
from tenacity.wait import wait_fixed

from server_reference.scripted import ErrorAnswer
from server_reference.scripted.providers import refusal
from server_reference.scripted.providers.retry_after import retry_after
from tests.end_to_end.virtual_calls import APIS, gaps

RETRIED = [408, 409, 425, 429, 500, 502, 503, 504, 529]
FINAL = [400, 401, 402, 403, 404, 405, 410, 413, 415, 422, 501, 505]
OWN = {"wait": wait_fixed(3.0)}

both_statuses = pytest.mark.parametrize("status", [429, 529])


def asking(form, seconds, status=429):
    """A rule's function: a refusal that asks to wait, by the server's clock."""

    def refuse(received):
        fields = retry_after(seconds, form=form, now=received.received_at)
        return ErrorAnswer(status, headers=fields)

    return refuse


@both_statuses
@pytest.mark.parametrize(
    ("form", "seconds"),
    [
        ("seconds", 7.0),
        ("fraction", 0.25),
        ("ms", 0.25),
        ("both", 7.0),
        ("imf_fixdate", 7.0),
        ("rfc850", 7.0),
        ("asctime", 7.0),
        ("seconds", 60.0),
    ],
)
def test_a_wait_that_is_asked_for_passes_on_the_clock(shared, form, seconds, status):
    server = shared.serve([asking(form, seconds, status), "Hi"])
    before = shared.clock.now()

    report = shared.ask().report

    assert report.stages["backoff"].duration == pytest.approx(seconds, abs=1e-6)
    assert gaps(server) == pytest.approx([seconds], abs=1e-6)
    assert shared.clock.now() - before == pytest.approx(seconds, abs=1e-6)
    assert server.verdict().is_clean


@both_statuses
@pytest.mark.parametrize(
    "form", "none negative infinite not_a_number word empty year_99999 past".split()
)
def test_a_wait_that_nobody_can_follow_is_the_clients_own(shared, form, status):
    server = shared.serve([asking(form, 0.0, status), "Hi"])

    shared.ask(client=OWN)

    assert gaps(server) == pytest.approx([3.0])


@pytest.mark.parametrize("form", ["seconds", "ms", "imf_fixdate"])
def test_no_wait_at_all_is_the_clients_own_too(shared, form):
    server = shared.serve([asking(form, 0.0), "Hi"])

    shared.ask(client=OWN)

    assert gaps(server) == pytest.approx([3.0])


@pytest.mark.parametrize(
    ("form", "seconds"),
    [("seconds", 61), ("ms", 60.001), ("both", 61), ("imf_fixdate", 61), ("seconds", 100_000)],
)
def test_a_wait_beyond_the_longest_ends_the_call_at_once(shared, form, seconds):
    server = shared.serve(asking(form, seconds))
    before = shared.clock.now()

    outcome = shared.ask()

    assert outcome.error is not None
    assert shared.clock.now() == before
    server.assert_attempts(1)


@pytest.mark.parametrize("jitter", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("seconds", [2, 10, 50])
def test_a_share_of_what_is_asked_for_is_added(shared, seconds, jitter):
    server = shared.serve([asking("seconds", seconds)] * 3 + ["Hi"])

    shared.ask(client={"wait_jitter": jitter})

    assert all(seconds <= gap <= seconds * (1 + jitter) + 1e-6 for gap in gaps(server))
    assert len(set(gaps(server))) == 3


@pytest.mark.parametrize("num_failures", range(1, 8))
def test_own_waits_grow_within_their_bounds(shared, num_failures):
    server = shared.serve([ErrorAnswer(529)] * num_failures + ["Hi"])

    shared.ask(client={"max_retries": 7})

    waits = gaps(server)
    assert len(waits) == num_failures
    assert all(0 <= wait <= min(8.0, 0.5 * 2**n) for n, wait in enumerate(waits))


@pytest.mark.parametrize("status", RETRIED)
def test_what_may_pass_is_sent_again_to_the_limit(shared, status):
    server = shared.serve(ErrorAnswer(status))

    outcome = shared.ask(client=OWN)

    assert [one.status for one in outcome.report.attempts] == [status] * 4
    assert gaps(server) == pytest.approx([3.0] * 3)


@pytest.mark.parametrize("status", FINAL)
def test_what_cannot_pass_is_not(shared, status):
    server = shared.serve(ErrorAnswer(status))

    assert shared.ask(client=OWN).error is not None
    server.assert_attempts(1)


@pytest.mark.parametrize("status", RETRIED)
def test_a_server_that_says_no_is_obeyed(shared, status):
    fields = {"x-should-retry": "false", "retry-after": "1"}
    server = shared.serve(ErrorAnswer(status, headers=fields))

    shared.ask(client=OWN)

    server.assert_attempts(1)


@pytest.mark.parametrize("status", FINAL)
def test_a_server_that_says_yes_is_too_within_the_limit(shared, status):
    fields = {"x-should-retry": "true", "retry-after": "1"}
    server = shared.serve(ErrorAnswer(status, headers=fields))

    shared.ask(client={"max_retries": 2})

    assert gaps(server) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("stop", "attempts"),
    [
        pytest.param(stop_after_delay(10), 4, id="after"),
        pytest.param(stop_before_delay(10), 3, id="before"),
        pytest.param(stop_before_delay(12.5), 4, id="just-before"),
        pytest.param(stop_before_delay(4), 1, id="the-first-wait-is-too-long"),
    ],
)
def test_a_deadline_ends_the_retries(shared, stop, attempts):
    server = shared.serve(asking("seconds", 4))

    outcome = shared.ask(client={"stop": stop})

    assert len(outcome.report.attempts) == attempts
    assert outcome.report.duration == pytest.approx(4.0 * (attempts - 1))
    assert gaps(server) == pytest.approx([4.0] * (attempts - 1))


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("num_failures", range(4))
def test_both_ends_count_the_same_attempts(shared, api, num_failures):
    server = shared.serve([ErrorAnswer(529)] * num_failures + ["Hi"])

    report = shared.ask(api).report

    server.settle()
    told = [(one.number, one.status) for one in report.attempts]
    seen = server.journal.entries()
    assert told == [(one.attempt, one.status) for one in seen]
    starts = [one.start - report.attempts[0].start for one in report.attempts]
    asked = [one.received_at - seen[0].received_at for one in seen]
    assert starts == pytest.approx(asked, abs=1e-6)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("messages", "enforced_spend_limit_reached"),
        ("chat", "insufficient_quota"),
        ("responses", "credit_balance_exhausted"),
    ],
)
def test_money_that_ran_out_is_not_waited_for(shared, api, error):
    server = shared.serve(refusal(error, retry_after=5).answer())
    before = shared.clock.now()

    assert shared.ask(api).error is not None
    assert shared.clock.now() == before
    server.assert_attempts(1)
