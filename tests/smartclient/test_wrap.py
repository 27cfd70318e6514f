"""SDK clients, upgraded in place and given back."""

from __future__ import annotations

import json

import anthropic
import httpx2
import openai
import pytest
from openai._models import FinalRequestOptions

import smartclient
from smartclient import last_report, unwrap, wrap
from smartclient._settings import Settings
from smartclient.testing import ManualClock
from smartclient.transports.httpx import AsyncTransport, Transport, call_context
from tests.smartclient.fakes import BLOCKING, CHAT, DONE, OVERLOAD, START, STOP, a_chunk, text
from tests.smartclient.sdk_clients import ASKED, SDKS, STREAMING, Sdk

pytestmark = pytest.mark.sdk

BUSY = 529, b'{"error": {"type": "overloaded_error", "message": "busy"}}', {}


@pytest.fixture(params=SDKS)
def sdk(request):
    return request.param


def quiet(**options):
    """Settings under which no test waits."""
    return Settings(clock=ManualClock(0.0), wait=lambda state: 0.0, **options)


# Upgraded.


def test_a_client_is_upgraded_in_place(sdk):
    client, _ = sdk.client(sdk.answer)

    assert wrap(client) is client
    assert isinstance(client, sdk.kind)
    assert type(client).__name__ == sdk.kind.__name__
    assert type(client).__module__ == sdk.kind.__module__
    assert type(client).__doc__ == sdk.kind.__doc__


def test_many_clients_need_one_class_more(sdk):
    clients = [wrap(sdk.client(sdk.answer)[0]) for _ in range(5)]

    assert len({type(client) for client in clients}) == 1


def test_a_transport_of_the_users_own_stays_and_is_called(sdk):
    client, transport = sdk.client(sdk.answer)

    answer = sdk.ask(wrap(client))

    assert sdk.text(answer) == "Paris"
    assert json.loads(transport.requests[0].content)["messages"] == ASKED
    assert isinstance(client._client._transport, (Transport, AsyncTransport))


def test_each_call_is_reported(sdk):
    client, _ = sdk.client(sdk.answer)
    wrap(client)

    assert last_report(client) is None
    sdk.ask(client)

    report = last_report(client)
    assert (report.status, report.usage.output, len(report.attempts)) == (200, 2, 1)


@pytest.mark.parametrize("sdk", [one for one in SDKS if one.values[0].is_anthropic])
def test_a_count_of_tokens_is_reported_with_its_provider(sdk):
    client, _ = sdk.client((200, b'{"input_tokens": 12}', {"request-id": "req_1"}))

    sdk.world.do(wrap(client).messages.count_tokens(model="tiny", messages=ASKED))

    report = last_report(client)
    assert (report.provider, report.request_id, report.error) == ("anthropic", "req_1", None)


def test_a_busy_provider_is_asked_again_by_us_alone(sdk):
    client, transport = sdk.client(BUSY, BUSY, sdk.answer)

    answer = sdk.ask(wrap(client, quiet()))

    assert sdk.text(answer) == "Paris"
    assert len(transport.requests) == 3
    assert [one.status for one in last_report(client).attempts] == [529, 529, 200]


def test_the_sdks_own_limit_is_kept(sdk):
    client, transport = sdk.client(BUSY, BUSY, max_retries=1)

    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
        sdk.ask(wrap(client, quiet()))

    assert caught.value.status_code == 529
    assert len(transport.requests) == 2


def test_a_calls_own_limit_comes_first(sdk):
    client, transport = sdk.client(BUSY)
    wrap(client, quiet())

    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)):
        sdk.ask(client.with_options(max_retries=0))

    assert len(transport.requests) == 1


def test_the_sdks_options_are_left_as_they_were():
    """They are used again, for the next page of a list."""
    client, _ = Sdk(openai.OpenAI, httpx2, BLOCKING).client((200, CHAT, {}))
    options = FinalRequestOptions.construct(method="post", url="/x", max_retries=3)

    wrap(client).request(dict, options)

    assert options.max_retries == 3


def test_a_limit_given_to_wrap_is_the_clients(sdk):
    client, transport = sdk.client(BUSY, max_retries=5)
    wrap(client, quiet(), max_retries=0)

    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)):
        sdk.ask(client)

    assert len(transport.requests) == 1
    assert unwrap(client).max_retries == 5


def test_a_limit_in_the_settings_is_the_clients(sdk):
    client, transport = sdk.client(BUSY, BUSY, max_retries=5)
    wrap(client, quiet(max_retries=1))

    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)):
        sdk.ask(client)

    assert len(transport.requests) == 2


def test_a_failure_below_is_tried_again_and_leaves_as_it_came(sdk):
    errors = [sdk.family.ConnectError("refused") for _ in range(2)]
    client, transport = sdk.client(*errors, max_retries=1)

    with pytest.raises((openai.APIConnectionError, anthropic.APIConnectionError)) as caught:
        sdk.ask(wrap(client, quiet()))

    assert len(transport.requests) == 2
    assert caught.value.__cause__ is errors[1]
    assert last_report(client).error == "connect"


@pytest.mark.parametrize("sdk", STREAMING)
def test_a_stream_passes_through(sdk):
    headers = {"content-type": "text/event-stream"}
    body = START + text("Paris") + STOP if sdk.is_anthropic else a_chunk("Paris") + DONE
    client, _ = sdk.client((200, body, headers))

    events = sdk.stream(wrap(client))

    assert "Paris" in str(events)
    assert last_report(client).error is None


def test_what_a_dropped_stream_left_to_do_is_done_at_the_close(sdk):
    def report():
        reported.append("cut")
        yield from ()

    client, _ = sdk.client()
    reported = []
    wrap(client)._client._transport.pipeline.leftovers.append(report())

    sdk.world.do(client.close())

    assert reported == ["cut"]


@pytest.mark.parametrize("sdk", STREAMING)
def test_an_error_in_a_stream_before_its_content_is_never_seen(sdk):
    headers = {"content-type": "text/event-stream"}
    bad = START + OVERLOAD if sdk.is_anthropic else b'data: {"error": {"code": 503}}\n\n'
    good = START + text("Paris") + STOP if sdk.is_anthropic else a_chunk("Paris") + DONE
    client, transport = sdk.client((200, bad, headers), (200, good, headers))

    events = sdk.stream(wrap(client, quiet()))

    assert "Paris" in str(events)
    assert len(transport.requests) == 2


def test_the_context_of_a_call_ends_with_it(sdk):
    client, _ = sdk.client(sdk.answer)

    sdk.ask(wrap(client))

    assert call_context.get() is None


def test_a_copy_made_by_the_sdk_is_upgraded_too(sdk):
    client, transport = sdk.client(BUSY, sdk.answer)
    copy = wrap(client, quiet()).with_options(timeout=5.0)

    sdk.ask(copy)

    assert len(last_report(copy).attempts) == 2
    assert last_report(copy) is last_report(client)
    assert transport.requests[0].extensions["timeout"]["read"] == 5.0


def test_a_copy_outlives_the_unwrapping_of_its_original(sdk):
    client, transport = sdk.client(sdk.answer)
    copy = wrap(client).with_options(timeout=5.0)

    unwrap(client)

    assert sdk.text(sdk.ask(copy)) == "Paris"
    assert type(unwrap(copy)) is sdk.kind
    assert client._client._transport is transport


def test_a_copy_with_another_http_client_is_as_that_one_is(sdk):
    client, _ = sdk.client()
    other, transport = sdk.client(sdk.answer)

    copy = wrap(client).with_options(http_client=other._client)

    assert sdk.text(sdk.ask(copy)) == "Paris"
    assert len(transport.requests) == 1


@pytest.mark.parametrize("takes", [True, False], ids=["takes-one", "takes-none"])
def test_a_copy_shares_the_http_client_where_its_sdk_lets_it(takes):
    """anthropic's clients of Bedrock would make one for each copy, which is not wrapped."""

    class Lonely(openai.OpenAI):
        def copy(self, *, http_client=None):
            return Lonely(api_key="k", base_url=self.base_url, http_client=http_client)

        with_options = copy

    class Closed(Lonely):
        def copy(self):
            return Lonely(api_key="k", base_url=self.base_url)

    with wrap((Lonely if takes else Closed)(api_key="k", base_url="http://a.test")) as client:
        copy = client.copy()
        assert (copy._client is client._client) is takes
        copy.close()


# Given back.


def test_unwrap_restores_everything(sdk):
    client, transport = sdk.client(sdk.answer)

    assert unwrap(wrap(client)) is client
    sdk.ask(client)

    assert type(client) is sdk.kind
    assert client._client._transport is transport
    with pytest.raises(TypeError, match=r"call smartclient.wrap\(client\) first"):
        last_report(client)


def test_unwrap_of_a_plain_client_changes_nothing(sdk):
    client, transport = sdk.client()

    assert unwrap(client) is client
    assert client._client._transport is transport


def test_what_is_wrapped_already_stays_as_it_is(sdk):
    client, _ = sdk.client(sdk.answer)
    wrap(client)
    transport = client._client._transport

    assert wrap(client) is client
    assert client._client._transport is transport


def test_new_settings_replace_the_old_ones(sdk):
    seen = []
    client, transport = sdk.client(sdk.answer)

    wrap(client, on_report=lambda report: seen.append("old"))
    wrap(client, on_report=lambda report: seen.append("new"))
    sdk.ask(client)

    assert seen == ["new"]
    assert client._client._transport.inner is transport


def test_two_clients_may_share_one_http_client(sdk):
    first, transport = sdk.client(sdk.answer)
    second = sdk.kind(
        api_key="sk-test", base_url="http://provider.test/v1", http_client=first._client
    )

    wrap(first)
    wrap(second)
    unwrap(first)
    assert isinstance(second._client._transport, (Transport, AsyncTransport))
    sdk.ask(second)
    unwrap(second)

    assert second._client._transport is transport


def test_settings_that_a_shared_http_client_cannot_have_are_refused(sdk):
    """They would be ignored in silence."""
    first, _ = sdk.client(BUSY, sdk.answer)
    second = sdk.kind(
        api_key="sk-test", base_url="http://provider.test/v1", http_client=first._client
    )
    wrap(first, quiet())

    with pytest.raises(ValueError, match="shares its HTTP client"):
        wrap(second, on_report=print)
    wrap(second, max_retries=1)

    assert sdk.text(sdk.ask(second)) == "Paris"


def test_clients_that_share_an_http_client_may_be_given_the_same_settings(sdk):
    first, transport = sdk.client(BUSY, sdk.answer)
    second = sdk.kind(api_key="k", base_url="http://a.test", http_client=first._client)
    chosen = quiet()

    wrap(first, chosen)
    sdk.ask(wrap(second, chosen))

    assert len(last_report(second).attempts) == len(transport.requests) == 2


def test_a_setting_that_cannot_be_leaves_a_wrapped_client_wrapped(sdk):
    client, _ = sdk.client(sdk.answer)
    wrap(client)

    with pytest.raises(TypeError, match="did you mean"):
        wrap(client, max_retrys=1)
    sdk.ask(client)

    assert last_report(client).status == 200


@pytest.mark.parametrize(
    "what", [None, object(), "client", httpx2.Client()], ids=["none", "object", "text", "http"]
)
def test_what_is_no_sdk_client_is_refused(what):
    with pytest.raises(TypeError, match="a client of the openai or anthropic SDK, not"):
        wrap(what)


def test_a_client_of_ours_needs_no_wrapping():
    with pytest.raises(TypeError, match="not Client"):
        wrap(smartclient.Client(base_url="http://127.0.0.1:1"))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        pytest.param({"max_retrys": 1}, TypeError, "did you mean 'max_retries'", id="unknown"),
        pytest.param({"max_retries": -1}, ValueError, "at least 0", id="range"),
        pytest.param({"timeout": 5.0}, ValueError, "the SDK's own timeout holds", id="timeout"),
        pytest.param({"stop": bool}, ValueError, "stop has no effect", id="stop"),
    ],
)
def test_a_setting_that_cannot_be_changes_nothing(sdk, options, error, message):
    client, transport = sdk.client()

    with pytest.raises(error, match=message):
        wrap(client, **options)

    assert type(client) is sdk.kind
    assert client._client._transport is transport
