"""How our own client makes a call from its arguments."""

from __future__ import annotations

import json

import pytest

from smartclient._call import Origin, Timeout
from smartclient._request import PerCall, Session
from smartclient._settings import Settings
from smartclient.testing import ManualClock

SHORT = Timeout(connect=2, pool=2, write=2, read=2.0, first_event=2.0, idle=2.0)
ENDLESS = Timeout(read=None, first_event=None, idle=None)
PAYLOAD = {"model": "tiny", "max_tokens": 8, "messages": []}


def a_session(provider="anthropic", base_url="http://127.0.0.1:8000", api_key="sk-test", **options):
    return Session(provider, base_url, api_key, Settings(clock=ManualClock(7.0), **options))


# Whom a session calls.


@pytest.mark.parametrize(
    ("base_url", "origin", "target"),
    [
        pytest.param("http://a:1", Origin("http", "a", 1), "/v1/messages", id="bare"),
        pytest.param("http://a:1/", Origin("http", "a", 1), "/v1/messages", id="slash"),
        pytest.param("http://a:1/p/q/", Origin("http", "a", 1), "/p/q/v1/messages", id="path"),
        pytest.param("https://[::1]:9", Origin("https", "::1", 9), "/v1/messages", id="ipv6"),
        pytest.param(None, Origin("https", "api.anthropic.com", 443), "/v1/messages", id="own"),
    ],
)
def test_a_base_url_goes_before_the_path(base_url, origin, target):
    call = a_session(base_url=base_url).call("/v1/messages", PAYLOAD, PerCall())

    assert (call.origin, call.target) == (origin, target)


@pytest.mark.parametrize(
    "base_url",
    [
        pytest.param("", id="empty"),
        pytest.param("http://a/v1?key=secret", id="query"),
        pytest.param("http://a/v1#secret", id="fragment"),
        pytest.param("http://user:secret@a/v1", id="password"),
    ],
)
def test_a_base_url_that_says_too_much_or_nothing_is_refused(base_url):
    with pytest.raises(ValueError, match=r"base_url must be|has no scheme") as caught:
        a_session(base_url=base_url)

    assert "secret" not in str(caught.value)


def test_a_base_url_of_another_type_is_refused():
    with pytest.raises(TypeError, match="base_url must be a string, not bytes"):
        a_session(base_url=b"http://a")


def test_the_environment_names_address_and_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://a:1/v1")

    call = a_session("openai", None, None).call("/chat/completions", PAYLOAD, PerCall())

    assert (str(call.origin), call.target) == ("http://a:1", "/v1/chat/completions")
    assert call.headers.get("authorization") == "Bearer sk-env"


def test_arguments_come_before_the_environment(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-env")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://env:1")

    call = a_session("anthropic", "http://arg:1", "sk-arg").call("/v1/messages", {}, PerCall())

    assert call.origin.host == "arg"
    assert call.headers.get("x-api-key") == "sk-arg"


def test_an_unknown_provider_is_refused():
    with pytest.raises(ValueError, match="'anthropic' or 'openai', not 'mistral'"):
        a_session("mistral")


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        pytest.param("anthropic", "ANTHROPIC_API_KEY", id="anthropic"),
        pytest.param("openai", "OPENAI_API_KEY", id="openai"),
    ],
)
def test_a_key_is_needed_for_the_providers_own_address(provider, variable):
    with pytest.raises(ValueError, match=f"api_key= or set {variable}"):
        a_session(provider, None, None)


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        pytest.param("anthropic", "ANTHROPIC_API_KEY", id="anthropic"),
        pytest.param("openai", "OPENAI_API_KEY", id="openai"),
    ],
)
def test_a_key_is_needed_there_even_when_the_address_is_given(provider, variable):
    own = {"anthropic": "https://api.anthropic.com/", "openai": "https://api.openai.com/v1"}

    with pytest.raises(ValueError, match=variable):
        a_session(provider, own[provider], None)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_elsewhere_no_key_is_needed_and_none_is_sent(provider):
    call = a_session(provider, api_key=None).call("/v1/messages", PAYLOAD, PerCall())

    assert call.headers.get("x-api-key") is None
    assert call.headers.get("authorization") is None


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("", id="empty"),
        pytest.param("sk-secret\n", id="line-end"),
        pytest.param("sk secret", id="space"),
        pytest.param("sk-sécret", id="accent"),
        pytest.param("sk-secret\x7f", id="delete"),
    ],
)
def test_a_key_that_cannot_be_is_refused_and_not_shown(key):
    with pytest.raises(ValueError, match="not shown") as caught:
        a_session(api_key=key)

    assert "cret" not in str(caught.value)


def test_a_key_of_another_type_is_refused():
    with pytest.raises(TypeError, match="api_key must be a string, not bytes"):
        a_session(api_key=b"sk-secret")


def test_a_resource_of_the_other_provider_is_refused():
    session = a_session("openai")

    session.expect("openai", "chat.completions")
    with pytest.raises(TypeError, match=r"messages is anthropic's.*provider='anthropic'"):
        session.expect("anthropic", "messages")


# What a call carries.


def test_a_call_carries_the_providers_headers():
    call = a_session().call("/v1/messages", PAYLOAD, PerCall())

    assert dict(call.headers) == {
        "accept": "application/json",
        "accept-encoding": "gzip, deflate, br, zstd",
        "content-type": "application/json",
        "user-agent": "smartclient",
        "anthropic-version": "2023-06-01",
        "x-api-key": "sk-test",
    }


def test_a_call_carries_its_payload_and_is_recognised():
    call = a_session().call("/v1/messages", PAYLOAD, PerCall())

    assert (call.method, json.loads(call.body)) == ("POST", PAYLOAD)
    assert call.adapter.name == "anthropic.messages"
    assert call.trace.started == 7.0


def test_counting_tokens_speaks_the_same_format():
    call = a_session().call("/v1/messages/count_tokens", PAYLOAD, PerCall())

    assert call.adapter.name == "anthropic.messages"
    assert call.target == "/v1/messages/count_tokens"


@pytest.mark.parametrize("name", ["x-api-key", "X-Api-Key", "X-API-KEY"])
def test_an_extra_header_replaces_ours_in_any_case(name):
    given = PerCall(extra_headers={name: "sk-other", "anthropic-beta": "new"})

    headers = a_session().call("/v1/messages", PAYLOAD, given).headers

    assert headers.all("x-api-key") == ["sk-other"]
    assert headers.get("anthropic-beta") == "new"


def test_extra_query_and_body_are_added():
    given = PerCall(extra_query={"a": [1, 2], "b": "x y"}, extra_body={"model": "other", "k": 1})

    call = a_session().call("/v1/messages", PAYLOAD, given)

    assert call.target == "/v1/messages?a=1&a=2&b=x+y"
    assert json.loads(call.body) == PAYLOAD | {"model": "other", "k": 1}
    assert call.payload["k"] == 1


@pytest.mark.parametrize(
    ("given", "timeout"),
    [
        pytest.param(PerCall(), Timeout(read=9.0), id="the-clients"),
        pytest.param(PerCall(timeout=None), ENDLESS, id="none"),
        pytest.param(PerCall(timeout=2), SHORT, id="number"),
        pytest.param(PerCall(timeout=Timeout(pool=1.0)), Timeout(pool=1.0), id="whole"),
    ],
)
def test_a_calls_own_timeout_comes_first(given, timeout):
    call = a_session(timeout=Timeout(read=9.0)).call("/v1/messages", PAYLOAD, given)

    assert call.timeout == timeout


@pytest.mark.parametrize("value", [0, -1, float("nan")], ids=["zero", "negative", "nan"])
def test_a_calls_timeout_is_checked(value):
    with pytest.raises(ValueError, match="above 0 s"):
        a_session().call("/v1/messages", PAYLOAD, PerCall(timeout=value))


def test_a_calls_own_retry_limit_is_carried():
    call = a_session().call("/v1/messages", PAYLOAD, PerCall(max_retries=0))

    assert call.max_retries == 0


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        pytest.param({"max_retries": -1}, ValueError, "at least 0, not -1", id="negative"),
        pytest.param({"max_retries": "1"}, TypeError, "of type int, not str", id="text"),
        pytest.param({"max_retries": True}, TypeError, "of type int, not bool", id="bool"),
        pytest.param({"extra_headers": [("a", "b")]}, TypeError, "a mapping, not list", id="list"),
        pytest.param({"extra_query": "a=b"}, TypeError, "a mapping, not str", id="query"),
        pytest.param({"extra_headers": {"n": 7}}, TypeError, "'n' has int", id="number"),
        pytest.param({"extra_headers": {"k": b"secret"}}, TypeError, "'k' has bytes", id="bytes"),
    ],
)
def test_what_one_call_is_given_is_checked(given, error, message):
    with pytest.raises(error, match=message) as caught:
        PerCall(**given)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=["nan", "inf"])
def test_a_number_that_json_cannot_say_is_refused(value):
    with pytest.raises(ValueError, match="temperature must be a number that JSON can say"):
        a_session().call("/v1/messages", PAYLOAD | {"temperature": value}, PerCall())


def test_a_payload_that_json_cannot_say_is_refused():
    with pytest.raises(TypeError, match="object"):
        a_session().call("/v1/messages", PAYLOAD | {"metadata": object()}, PerCall())
