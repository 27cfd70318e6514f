"""What the plain SDKs send again, after which wait, and by what it could be told apart.

Seen with openai 3.57 and anthropic 2.14; each test names the public report.
"""

from __future__ import annotations

import asyncio
import logging

import anthropic
import openai
import pytest

import server_reference
from server_reference.scripted import ErrorAnswer, fault
from tests.end_to_end.plain_sdks import ANSWER, BODY, PlainSdk, both_sdks

pytestmark = pytest.mark.sdk

OPENAI, ANTHROPIC = PlainSdk(openai), PlainSdk(anthropic)
ANTHROPIC_BODY = {name: value for name, value in BODY.items() if name != "stream"}


@both_sdks
@pytest.mark.parametrize(
    ("status", "attempts"),
    [(408, 3), (409, 3), (425, 1), (429, 3), (500, 3), (501, 3), (503, 3), (505, 3), (529, 3)],
)
def test_which_statuses_are_tried_again(sdk, status, attempts):
    """425 Too Early is meant to be tried again, and 501 and 505 never: RFC 8470, RFC 9110."""
    refusal = ErrorAnswer(status, headers={"retry-after-ms": "1"})
    with server_reference.scripted(refusal) as server, sdk.client(server) as client:
        assert isinstance(sdk.fails(client), sdk.package.APIStatusError)

        server.assert_attempts(attempts)


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        pytest.param("retry_after_huge", "100000.000000 seconds", id="a-day"),
        pytest.param("retry_after_infinite", "seconds", id="inf"),
    ],
)
def test_anthropic_waits_as_long_as_it_is_told(name, waits, caplog):
    """openai-python PR#3555 caps the wait; pi#4666."""
    caplog.set_level(logging.INFO, "anthropic")

    async def ask(server):
        url = server.base_url
        async with anthropic.AsyncAnthropic(base_url=url, api_key="sk-test") as client:
            await asyncio.wait_for(client.messages.create(**ANTHROPIC_BODY), 1.5)

    with server_reference.scripted(ANSWER | fault(name)) as server:
        with pytest.raises(TimeoutError):
            asyncio.run(ask(server))
        server.assert_attempts(1)

    [seconds] = [r.args[1] for r in caplog.records if r.msg.startswith("Retrying request")]
    assert seconds >= 100_000
    assert waits in caplog.text


def test_openai_does_not_wait_longer_than_two_minutes():
    with (
        server_reference.scripted(ANSWER | fault("retry_after_huge")) as server,
        OPENAI.client(server) as client,
    ):
        assert isinstance(OPENAI.fails(client), openai.RateLimitError)

        server.assert_attempts(1)


def test_a_date_of_no_calendar_escapes_anthropic_as_a_value_error():
    """anthropic-sdk-python PR#1827: the 429 is lost behind it."""
    far = ANSWER | fault("retry_after_far_year")
    with server_reference.scripted(far) as server, ANTHROPIC.client(server) as client:
        error = ANTHROPIC.fails(client)

    assert type(error) is ValueError


def test_openai_takes_a_date_of_no_calendar_for_absent():
    far = [fault("retry_after_far_year"), ANSWER]
    with server_reference.scripted(far) as server, OPENAI.client(server) as client:
        assert OPENAI.fails(client) is None


@both_sdks
def test_a_refusal_about_money_is_tried_again(sdk):
    """langchainjs#1929; codex PR#6340."""
    with server_reference.scripted(fault("quota_exceeded")) as server, sdk.client(server) as client:
        assert isinstance(sdk.fails(client), sdk.package.APIStatusError)

        server.assert_attempts(3)
        assert server.verdict().names == ["retried_for_nothing"]


@both_sdks
def test_attempts_share_no_idempotency_key(sdk):
    """A call whose answer was lost may be paid for twice, and the server cannot tell."""
    lost = [fault("no_reply"), ANSWER]
    with server_reference.scripted(lost) as server, sdk.client(server) as client:
        assert sdk.fails(client) is None

        server.assert_attempts(2)
        assert {one.header("idempotency-key") for one in server.journal.entries()} == {None}
