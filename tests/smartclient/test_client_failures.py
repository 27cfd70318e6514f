"""Calls of our own clients that fail: what is raised, and what is sent again before."""

from __future__ import annotations

import pytest

from smartclient._errors import (
    ExchangeError,
    InvalidRequestError,
    MalformedReplyError,
    OverloadedError,
)
from smartclient.testing import ManualClock
from tests.smartclient.clients import ANSWER, BUSY, CHAT_GIVEN, GIVEN, an_anthropic, an_openai
from tests.smartclient.fakes import MESSAGE, OVERLOAD, START, Answer, a_stream, text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_error_reply_is_raised_and_its_connection_given_back(home, stream):
    client, provider = an_anthropic(home, Answer(BUSY, status=529))

    with pytest.raises(OverloadedError, match="busy"):
        home.do(client.messages.create(stream=stream, **GIVEN))

    assert len(provider.responses[0].closed) == 1
    assert (client.last_report.status, client.last_report.error) == (529, "overloaded_error")


def test_a_very_long_error_body_is_read_within_a_bound(home):
    page = b"<title>Bad gateway</title>" + b"x" * 200_000
    client, provider = an_anthropic(home, Answer(page[:70_000], page[70_000:], status=502))

    with pytest.raises(Exception, match=r"502.*Bad gateway"):
        home.do(client.messages.create(**GIVEN))

    assert provider.responses[0].num_reads == 1


def test_a_redirect_is_an_error_that_names_the_place(home):
    client, provider = an_anthropic(home, Answer(status=308, location="http://b/"))

    with pytest.raises(Exception, match="redirects to http://b/"):
        home.do(client.messages.create(**GIVEN))

    assert len(provider.responses[0].closed) == 1


def test_a_page_in_the_place_of_json_is_malformed(home):
    client, _ = an_anthropic(home, Answer(b"<html>", content_type="text/html"))

    with pytest.raises(MalformedReplyError, match="text/html") as caught:
        home.do(client.messages.create(**GIVEN))

    assert caught.value.excerpt == b"<html>"
    assert client.last_report.error == "malformed"


@pytest.mark.parametrize(
    ("make", "ask"),
    [
        pytest.param(an_anthropic, lambda c: c.messages.create(**GIVEN), id="anthropic"),
        pytest.param(an_openai, lambda c: c.chat.completions.create(**CHAT_GIVEN), id="openai"),
    ],
)
def test_an_error_that_came_with_status_200_is_raised(home, make, ask):
    """Some proxies do that; the fields of a message would all be None."""
    client, _ = make(home, Answer(BUSY))

    with pytest.raises(OverloadedError, match="answered 200 overloaded_error: busy"):
        home.do(ask(client))

    assert client.last_report.error == "overloaded_error"


def test_json_in_the_place_of_a_stream_is_malformed(home):
    client, provider = an_anthropic(home, Answer(MESSAGE))

    with pytest.raises(MalformedReplyError, match="a stream was asked for") as caught:
        home.do(client.messages.create(stream=True, **GIVEN))

    assert caught.value.excerpt == MESSAGE[:200]
    assert provider.responses[0].closed == [False]
    assert client.last_report.error == "malformed"


def test_an_error_in_the_place_of_a_stream_is_raised_as_such(home):
    client, _ = an_anthropic(home, Answer(BUSY))

    with pytest.raises(OverloadedError, match="answered 200 overloaded_error: busy"):
        home.do(client.messages.create(stream=True, **GIVEN))

    assert client.last_report.error == "overloaded_error"


def test_a_connection_that_fails_is_an_exchange_error(home):
    error = ExchangeError("refused", kind="connect")
    client, _ = an_anthropic(home, error)

    with pytest.raises(ExchangeError) as caught:
        home.do(client.messages.create(**GIVEN))

    assert caught.value is error
    assert client.last_report.error == "connect"


# Retries.


def test_a_call_is_sent_again_while_the_provider_is_busy(home):
    busy = Answer(BUSY, status=529, retry_after="3")
    clock = ManualClock(0.0)
    client, provider = an_anthropic(
        home, busy, Answer(MESSAGE), clock=clock, max_retries=1, wait_jitter=0.0
    )

    message = home.do(client.messages.create(**GIVEN))

    assert message.content[0].text == "Paris"
    assert clock.slept == [3.0]
    assert [one.status for one in client.last_report.attempts] == [529, 200]
    assert provider.responses[0].closed == [True]  # its connection is kept


def test_an_error_in_a_stream_before_its_content_is_never_seen(home):
    client, _ = an_anthropic(
        home, a_stream(START + OVERLOAD), a_stream(*ANSWER), max_retries=1, wait=lambda state: 0.0
    )

    events = home.all(home.do(client.messages.create(stream=True, **GIVEN)))

    assert [event.type for event in events].count("message_start") == 1
    assert len(client.last_report.attempts) == 2


def test_after_content_nothing_is_sent_again(home):
    client, provider = an_anthropic(home, a_stream(START, text("Pa"), OVERLOAD), max_retries=3)
    stream = home.do(client.messages.create(stream=True, **GIVEN))

    with pytest.raises(OverloadedError) as caught:
        home.all(stream)

    assert len(provider.calls) == 1
    assert caught.value.partial.content[0].text == "Pa"


def test_a_calls_own_limit_comes_before_the_clients(home):
    client, provider = an_anthropic(home, Answer(BUSY, status=529), max_retries=3)

    with pytest.raises(OverloadedError):
        home.do(client.messages.create(max_retries=0, **GIVEN))

    assert len(provider.calls) == 1


def test_the_error_says_how_often_it_was_tried(home):
    client, _ = an_anthropic(
        home, *[Answer(BUSY, status=529)] * 3, max_retries=2, wait=lambda state: 0.0
    )

    with pytest.raises(OverloadedError, match="after 3 attempts") as caught:
        home.do(client.messages.create(**GIVEN))

    assert caught.value.attempts == 3


def test_a_bad_request_is_not_tried_again(home):
    body = b'{"error": {"type": "invalid_request_error", "message": "messages: too short"}}'
    client, provider = an_anthropic(home, Answer(body, status=400), max_retries=3)

    with pytest.raises(InvalidRequestError, match="too short"):
        home.do(client.messages.create(**GIVEN))

    assert len(provider.calls) == 1
