"""How our own client judges a reply."""

from __future__ import annotations

import msgspec
import pytest

from smartclient._call import Headers
from smartclient._errors import (
    AuthenticationError,
    InvalidRequestError,
    MalformedReplyError,
    OverloadedError,
    RateLimitError,
    ServerError,
)
from smartclient._verdict import decoded, failure_error, not_events, success
from smartclient.testing import a_call, a_reply
from smartclient.wire import Failure
from smartclient.wire.anthropic_types import MessageTokensCount
from tests.smartclient.fakes import BLOCKING, MESSAGE, Answer, a_stream


def an_error_reply(body: bytes, status: int = 400, **headers):
    """An error reply that was peeked at."""
    reply, _ = BLOCKING.reply(Answer(body, status=status, **headers))
    reply.handle.fetch()
    return reply


def test_a_success_is_passed_on():
    reply = a_reply(200)

    assert success(reply) is reply


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        pytest.param(400, InvalidRequestError, id="400"),
        pytest.param(401, AuthenticationError, id="401"),
        pytest.param(429, RateLimitError, id="429"),
        pytest.param(529, OverloadedError, id="529"),
    ],
)
def test_an_error_reply_is_raised_with_its_facts(status, kind):
    body = b'{"error": {"type": "some_error", "message": "because"}}'

    with pytest.raises(kind, match="because") as caught:
        success(an_error_reply(body, status, request_id="req_1"))

    assert (caught.value.status, caught.value.type) == (status, "some_error")
    assert (caught.value.request_id, caught.value.attempts) == ("req_1", 0)


@pytest.mark.parametrize(
    ("body", "status", "advice"),
    [
        pytest.param(
            b'{"error": {"type": "billing_error"}}', 429, "no quota or credit", id="money"
        ),
        pytest.param(b"{}", 401, "check the API key", id="key"),
        pytest.param(b"{}", 500, "nothing more$", id="nothing"),
    ],
)
def test_an_error_says_what_to_do_where_we_know_it(body, status, advice):
    with pytest.raises(Exception, match=advice):
        success(an_error_reply(body, status))


def test_an_error_tells_how_long_the_provider_asks_to_wait():
    with pytest.raises(RateLimitError, match=r"asks to wait 3,600 s") as caught:
        success(an_error_reply(b"{}", 429, retry_after="3600"))

    assert caught.value.retry_after == 3600.0


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("sk-0123456789", "the key [key] is wrong", id="key"),
        pytest.param("is", "the key is is wrong", id="word"),
    ],
)
def test_a_key_is_taken_out_of_an_error_and_a_word_is_not(key, text):
    headers = Headers({"authorization": f"Bearer {key}"})
    reply = a_reply(401, call=msgspec.structs.replace(a_call(), headers=headers))
    failure = Failure(kind="authentication", message=f"the key {key} is wrong")

    assert failure_error(failure, reply, status=401).message == text


@pytest.mark.parametrize(
    ("headers", "where"),
    [
        pytest.param({"location": "https://b.example/"}, "https://b.example/", id="somewhere"),
        pytest.param({}, "nowhere", id="nowhere"),
        pytest.param({"location": "http://b/?key=secret"}, "http://b/;", id="without-its-query"),
    ],
)
def test_a_redirect_is_no_success(headers, where):
    with pytest.raises(InvalidRequestError, match=f"answered 301.*redirects to {where}"):
        success(a_reply(301, **headers))


def test_a_failure_of_an_unknown_format_has_a_request_id_too():
    reply = a_reply(500, call=a_call(path="/other"), request_id="req_2")

    error = failure_error(Failure(kind="server"), reply, status=500)

    assert error.request_id == "req_2"


@pytest.mark.parametrize(
    ("kind", "type_", "error_class"),
    [
        pytest.param("overloaded", None, OverloadedError, id="overloaded"),
        pytest.param("invalid", "request_too_large", InvalidRequestError, id="invalid"),
        pytest.param("money", "billing_error", RateLimitError, id="money"),
        pytest.param("authentication", "odd", AuthenticationError, id="key"),
        pytest.param("server", "rate_limit_error", RateLimitError, id="type-first"),
        pytest.param("server", "api_error", ServerError, id="server"),
        pytest.param("timeout", "timeout_error", ServerError, id="timeout"),
    ],
)
def test_an_error_in_a_stream_goes_by_its_type_then_its_kind(kind, type_, error_class):
    error = failure_error(Failure(kind=kind, type=type_), a_reply(), status=None)

    assert type(error) is error_class


def test_a_stream_that_is_not_its_format_is_malformed():
    """Nobody answered an error."""
    reply, _ = BLOCKING.reply(a_stream())

    error = failure_error(Failure(kind="malformed", message="a chunk"), reply, status=None)

    assert isinstance(error, MalformedReplyError)
    assert str(error) == (
        "the stream of http://127.0.0.1:8000 is not what its format promises: a chunk"
    )


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        pytest.param(Answer(MESSAGE), "with application/json; does a proxy", id="json"),
        pytest.param(Answer(MESSAGE, content_type=""), "with no content-type", id="nothing"),
        pytest.param(a_stream(content_encoding="br"), "in content-encoding br;", id="brotli"),
    ],
)
def test_something_else_than_the_stream_asked_for_says_what_it_is(answer, what):
    reply, _ = BLOCKING.reply(answer)
    reply.handle.begin()

    error = not_events(reply)

    assert isinstance(error, MalformedReplyError)
    assert what in str(error)
    assert error.status == 200


def test_a_reply_is_decoded_by_its_format():
    message = decoded(a_reply(), MESSAGE, None)

    assert message.content[0].text == "Paris"


def test_a_reply_without_a_struct_of_its_format_is_decoded_into_one():
    assert decoded(a_reply(), b'{"input_tokens": 9}', MessageTokensCount).input_tokens == 9


def test_a_reply_of_an_unknown_format_is_plain_json():
    assert decoded(a_reply(call=a_call(path="/other")), b"[1]", None) == [1]


@pytest.mark.parametrize(
    ("body", "headers", "what"),
    [
        pytest.param(b"<html>" + b"x" * 500, {"content_type": "text/html"}, "text/html", id="html"),
        pytest.param(b"", {}, "no content-type", id="empty"),
    ],
)
def test_a_success_that_is_no_json_says_what_it_is(body, headers, what):
    with pytest.raises(MalformedReplyError, match=f"answered 200 with {what}") as caught:
        decoded(a_reply(**headers), body, None)

    assert caught.value.excerpt == body[:200]
