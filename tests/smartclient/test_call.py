"""A call, its reply and their record."""

from __future__ import annotations

import msgspec
import pytest

from smartclient._call import Headers, Origin, Span, Timeout, Trace
from smartclient.testing import a_call, a_reply
from smartclient.wire import Served
from tests.smartclient.fakes import FakeResponse, a_stream


@pytest.mark.parametrize(
    ("url", "origin", "target"),
    [
        pytest.param("https://a.example", Origin("https", "a.example", 443), "/", id="bare"),
        pytest.param("HTTP://A.example/v1", Origin("http", "a.example", 80), "/v1", id="case"),
        pytest.param("http://a:81/?q=1", Origin("http", "a", 81), "/?q=1", id="port-and-query"),
        pytest.param("http://[::1]:8000/x", Origin("http", "::1", 8000), "/x", id="ipv6"),
    ],
)
def test_a_url_splits_into_origin_and_target(url, origin, target):
    assert Origin.of(url) == (origin, target)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("sk-secret", "has no scheme", id="no-scheme"),
        pytest.param("localhost:8000", "begins with localhost:", id="no-slashes"),
        pytest.param("ftp://secret.example", "begins with ftp:", id="other-scheme"),
        pytest.param("https:///secret", "name a host", id="no-host"),
        pytest.param("http://[::secret", "in brackets", id="broken-ipv6"),
        pytest.param("http://a:secret", "a number up to 65535", id="port-in-letters"),
        pytest.param("http://a:70000", "a number up to 65535", id="port-too-large"),
    ],
)
def test_a_url_that_names_no_host_is_refused_and_not_shown(url, message):
    """Somebody passes a key in its place."""
    with pytest.raises(ValueError, match=message) as caught:
        Origin.of(url)

    assert "secret" not in str(caught.value)


def test_port_zero_is_not_the_default_port():
    assert Origin.of("http://a:0")[0].port == 0


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        pytest.param(Origin("http", "::1", 80), "http://[::1]:80", id="ipv6"),
        pytest.param(Origin("https", "a.example", 443), "https://a.example:443", id="name"),
    ],
)
def test_an_origin_reads_as_a_url(origin, text):
    assert str(origin) == text


def test_header_names_compare_without_case():
    headers = Headers([("Set-Cookie", "a"), ("set-cookie", "b")])

    assert headers.get("SET-COOKIE") == "a"
    assert headers.all("sEt-cookie") == ["a", "b"]
    assert headers.get("cookie") is None


def test_replaced_headers_are_set_once_and_none_removes():
    headers = Headers({"X-Key": "old", "accept": "all"})

    assert list(headers.replaced(x_key="new", accept=None)) == [("x-key", "new")]
    assert len(headers) == 2


def test_headers_are_values():
    assert Headers({"a": "1"}) == Headers([("a", "1")])
    assert hash(Headers({"a": "1"})) == hash(Headers([("a", "1")]))
    assert Headers() != ()


def test_the_repr_of_headers_shows_no_value():
    """Values may be keys, and reprs end up in logs."""
    assert (
        repr(Headers({"x-api-key": "sk-secret", "accept": "all"})) == "Headers(x-api-key, accept)"
    )


def test_attempts_are_counted_from_one():
    trace = Trace(started=0.0)

    numbers = [trace.begin(Origin("http", "::1", 80), at=at).number for at in (1.0, 2.0)]

    assert numbers == [1, 2]
    assert str(trace.attempts[1].origin) == "http://[::1]:80"


def test_a_span_has_a_duration():
    assert Span(1.0, 3.5).duration == 2.5


def test_a_call_with_another_payload_sends_it():
    call = a_call()

    changed = call.with_payload({"model": "other", "stream": True})

    assert msgspec.json.decode(changed.body) == {"model": "other", "stream": True}
    assert (changed.model, changed.is_stream) == ("other", True)
    assert (call.model, call.is_stream) == ("tiny", False)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(None, id="unknown-format"),
        pytest.param({"model": 7, "stream": "yes"}, id="wrong-types"),
    ],
)
def test_what_a_payload_does_not_say_is_unknown(payload):
    call = msgspec.structs.replace(a_call(), payload=payload)

    assert call.model is None
    assert not call.is_stream


def test_only_bytes_can_be_sent_twice():
    assert a_call().is_repeatable
    assert not a_call(body=iter([b"x"])).is_repeatable


def test_cutting_a_reply_drops_its_body():
    reply = a_reply()
    reply.handle = FakeResponse(a_stream())

    reply.cut()

    assert reply.handle.num_cuts == 1


def test_cutting_a_reply_without_a_body_does_nothing():
    a_reply().cut()


def test_a_model_may_think_for_minutes_before_its_first_word_and_speak_for_hours():
    usual = Timeout()

    assert usual.first_event >= 600.0
    assert usual.idle >= 300.0
    assert usual.read >= usual.first_event
    assert usual.total is None


@pytest.mark.parametrize(
    ("asked", "served", "billed"),
    [
        pytest.param(None, None, None, id="nothing-said"),
        pytest.param(Served(geo="us"), None, Served(geo="us"), id="asked"),
        pytest.param(None, Served(speed="fast"), Served(speed="fast"), id="told"),
        pytest.param(
            Served(service_tier="auto", geo="us"),
            Served(service_tier="flex"),
            Served(service_tier="flex", geo="us"),
            id="both",
        ),
    ],
)
def test_an_attempt_is_billed_as_its_reply_says_and_else_as_asked(asked, served, billed):
    attempt = Trace(started=0.0).begin(Origin("http", "a", 80), at=0.0)
    attempt.asked, attempt.served = asked, served

    assert attempt.billed_as == billed
