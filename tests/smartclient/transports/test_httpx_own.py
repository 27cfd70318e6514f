"""Our transport under an HTTP client that we made: every request is a call."""

from __future__ import annotations

from unittest.mock import AsyncMock, Mock

import httpx
import httpx2
import pytest

from smartclient._call import Timeout
from smartclient._errors import ExchangeError
from smartclient._pipeline import Pipeline
from smartclient._settings import Settings
from smartclient.net.options import NetOptions
from smartclient.testing import ManualClock
from smartclient.transports.below import Below
from smartclient.transports.httpx import AsyncTransport, CallContext, Transport, call_context
from tests.smartclient.fakes import MESSAGE, Answer

URL = "http://a.example:81/v1/messages"
ASKED = {"model": "tiny", "messages": []}
BUSY = Answer(b'{"error": {"type": "overloaded_error"}}', status=529)
COUNTED = {"x-stainless-retry-count": "0"}


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def family(request):
    return request.param


@pytest.fixture
def made(home, family):
    """Makes a client over our transport, which is over a provider; gives both."""

    def make(*answers, **options):
        provider = home.provider(*answers)
        pipeline = Pipeline(Settings(clock=ManualClock(5.0), wait=lambda state: 0.0, **options))
        below = Below(family, NetOptions(), is_async=home.is_async)
        transport = (AsyncTransport if home.is_async else Transport)(
            family, below, pipeline, provider
        )
        http = family.AsyncClient if home.is_async else family.Client
        return http(transport=transport, timeout=None), provider

    return make


def posted(home, client, **more):
    return home.do(client.post(URL, json=ASKED, **more))


def statuses(client):
    return [one.status for one in client._transport.pipeline.last_report.attempts]


def test_every_request_is_a_call(home, made):
    client, provider = made(Answer(MESSAGE), Answer(MESSAGE))

    posted(home, client)
    posted(home, client)

    assert len(provider.calls) == 2
    assert provider.calls[0].adapter.provider == "anthropic"
    assert client._transport.pipeline.last_report.status == 200


def test_the_settings_say_how_often_it_is_sent(home, made):
    client, provider = made(BUSY, BUSY, max_retries=1)

    assert posted(home, client).status_code == 529
    assert statuses(client) == [529, 529]
    assert provider.calls[0].max_retries is None


def test_a_request_that_its_sdk_counts_is_its_sdks_to_send_again(home, made):
    """A call has one owner of its retries."""
    client, _ = made(BUSY, BUSY)

    assert posted(home, client, headers=COUNTED).status_code == 529
    assert statuses(client) == [529]


def test_the_call_of_a_wrapped_sdk_is_that_sdks(home, made):
    client, _ = made(BUSY, Answer(MESSAGE))

    token = call_context.set(CallContext(client._transport.pipeline, 1, 2.0))
    try:
        assert posted(home, client, headers=COUNTED).status_code == 200
    finally:
        call_context.reset(token)

    assert statuses(client) == [529, 200]
    assert client._transport.pipeline.last_report.duration == 3.0


def test_a_request_in_the_middle_of_another_clients_call_is_its_own(home, made):
    """Such as one for the token that the other call is about to need."""
    client, provider = made(BUSY, Answer(MESSAGE))
    context = CallContext(Pipeline(Settings()), 0, 0.0, is_prepared=True)

    token = call_context.set(context)
    try:
        assert posted(home, client).status_code == 200
    finally:
        call_context.reset(token)

    assert (len(provider.calls), context.waiting) == (2, None)


def limits_of(home, made, timeout, settings):
    client, provider = made(Answer(MESSAGE), timeout=settings)
    posted(home, client, timeout=timeout)
    return provider.calls[0].timeout


@pytest.mark.parametrize(
    ("read", "first_event", "idle"),
    [
        pytest.param(5.0, 7.0, 3.0, id="the-settings-own"),
        pytest.param(1.0, 7.0, 3.0, id="shorter"),
        pytest.param(6.0, 7.0, 6.0, id="longer"),
        pytest.param(None, None, None, id="none"),
    ],
)
def test_a_longer_patience_of_a_request_is_one_with_events(
    home, made, family, read, first_event, idle
):
    settings = Timeout(read=5.0, first_event=7.0, idle=3.0)

    limits = limits_of(home, made, family.Timeout(2.0, read=read), settings)

    assert (limits.connect, limits.read) == (2.0, read)
    assert (limits.first_event, limits.idle) == (first_event, idle)


def test_a_request_without_limits_has_those_of_the_settings(home, made, family):
    client, provider = made(Answer(MESSAGE))
    request = family.Request("POST", URL, json=ASKED)

    transport = client._transport
    handle = transport.handle_async_request if home.is_async else transport.handle_request
    home.do(handle(request))

    assert provider.calls[0].timeout == Timeout()


@pytest.mark.parametrize("url", ["/v1/messages", "ftp://a.example/"])
def test_what_is_no_url_for_http_is_refused_in_the_familys_way(home, made, family, url):
    client, provider = made()

    with pytest.raises(family.UnsupportedProtocol, match="must begin with http://") as caught:
        home.do(client.get(url))

    assert isinstance(caught.value, ExchangeError)
    assert provider.calls == []


def test_a_mock_put_into_the_familys_class_is_obeyed(home, made, family, monkeypatch):
    client, provider = made(Answer(MESSAGE))
    mocked = {"side_effect": lambda request: family.Response(218)}

    with monkeypatch.context() as patched:
        patched.setattr(family.HTTPTransport, "handle_request", Mock(**mocked))
        patched.setattr(family.AsyncHTTPTransport, "handle_async_request", AsyncMock(**mocked))
        assert posted(home, client).status_code == 218
    assert posted(home, client).status_code == 200

    assert len(provider.calls) == 1
