"""SDK clients whose own connections give way to ours, or stay below our policies."""

from __future__ import annotations

import functools
import socket
import ssl
import unittest.mock

import anthropic
import httpx
import httpx2
import openai
import pytest
import trio

import smartclient
from smartclient import unwrap, wrap
from smartclient._settings import Settings
from smartclient.net.aio import AsyncConnections
from smartclient.net.blocking import Connections
from smartclient.transports.httpx import Transport
from tests.smartclient.fakes import CHAT
from tests.smartclient.sdk_clients import ASKED

pytestmark = pytest.mark.sdk

KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
NATIVE = [
    pytest.param(openai.OpenAI, httpx2.Client, Connections, id="openai"),
    pytest.param(openai.OpenAI, httpx.Client, Connections, id="openai-on-httpx"),
    pytest.param(anthropic.Anthropic, httpx2.Client, Connections, id="anthropic"),
    pytest.param(openai.AsyncOpenAI, httpx2.AsyncClient, AsyncConnections, id="async-openai"),
    pytest.param(
        anthropic.AsyncAnthropic, httpx2.AsyncClient, AsyncConnections, id="async-anthropic"
    ),
]


def over(kind, http_client):
    return kind(api_key="sk-test", base_url="http://provider.test/v1", http_client=http_client)


def options_of(client):
    return client._client._transport._connections._options


@pytest.mark.parametrize(("kind", "http", "connections"), NATIVE)
def test_the_familys_own_transport_gives_way_to_our_connections(kind, http, connections):
    http_client = http()
    before = http_client._transport

    client = wrap(over(kind, http_client))

    assert type(http_client._transport._connections) is connections
    unwrap(client)
    assert http_client._transport is before


@pytest.mark.parametrize(
    "special",
    [
        pytest.param({"local_address": "this.test"}, id="local-address-by-name"),
        pytest.param({"retries": 1}, id="retries"),
        pytest.param({"socket_options": [(1, 25, None, 4)]}, id="socket-option-without-value"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("family", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_what_our_connections_cannot_do_yet_stays_below(family, is_async, special):
    kind = openai.AsyncOpenAI if is_async else openai.OpenAI
    http = family.AsyncClient if is_async else family.Client
    transport = (family.AsyncHTTPTransport if is_async else family.HTTPTransport)(**special)

    client = wrap(over(kind, http(transport=transport)))

    assert client._client._transport._connections is None
    assert client._client._transport.inner is transport


@pytest.mark.parametrize(
    "kind",
    [anthropic.Anthropic, anthropic.AsyncAnthropic, openai.OpenAI, openai.AsyncOpenAI],
    ids=lambda kind: kind.__name__,
)
def test_an_sdks_own_client_gives_way_with_the_keepalive_that_it_sets(kind):
    client = wrap(kind(api_key="sk-test"))

    assert client._client._transport._connections is not None


@pytest.mark.parametrize("kind", [anthropic.Anthropic, openai.OpenAI, openai.AsyncOpenAI])
def test_clients_that_an_sdk_makes_alike_share_connections_over_tls(kind):
    first, second = wrap(kind(api_key="sk-test")), wrap(kind(api_key="sk-other"))

    assert options_of(first).ssl_context is options_of(second).ssl_context


def test_a_context_that_the_user_gave_is_shared_with_nobody():
    own, usual = ssl.create_default_context(), wrap(openai.OpenAI(api_key="sk-test"))
    given = openai.DefaultHttpxClient(verify=own)

    client = wrap(over(openai.OpenAI, given))

    assert options_of(client).ssl_context is own
    assert options_of(usual).ssl_context is not own


def test_a_socket_option_that_is_no_keepalive_is_kept_in_an_sdks_own_client():
    options = (*KEEPALIVE, (socket.IPPROTO_TCP, socket.TCP_NODELAY, 0))
    transport = httpx2.HTTPTransport(socket_options=options)
    http_client = anthropic.DefaultHttpxClient(transport=transport)

    client = wrap(over(anthropic.Anthropic, http_client))

    assert options_of(client).socket_options == options


def test_the_environment_is_the_http_clients_to_read():
    with pytest.raises(ValueError, match="trust_env has no effect where an SDK is wrapped"):
        wrap(over(openai.OpenAI, httpx2.Client()), trust_env=False)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"keepalive": 60.0}, id="the-usual-value"),
        pytest.param({"max_connections": 3}, id="limit"),
        pytest.param({"ca_file": "ca.pem"}, id="file"),
        pytest.param({"ssl_context": ssl.create_default_context()}, id="context"),
        pytest.param({"settings": Settings(keepalive=None)}, id="settings"),
        pytest.param({"proxy": "http://proxy.test:1"}, id="proxy"),
        pytest.param({"uds": "/tmp/socket"}, id="unix-socket"),
        pytest.param({"local_address": "127.0.0.1"}, id="local-address"),
        pytest.param({"socket_options": KEEPALIVE}, id="socket-options"),
    ],
)
@pytest.mark.parametrize("where", ["transport", "mounts"])
def test_a_setting_that_what_stays_below_would_not_keep_is_refused(where, options):
    below = httpx2.HTTPTransport(retries=1)
    given = {"transport": below} if where == "transport" else {"mounts": {"https://": below}}
    client = over(openai.OpenAI, httpx2.Client(**given))

    with pytest.raises(ValueError, match="would have no effect: the client's HTTPTransport stays"):
        wrap(client, max_retries=7, **options)

    assert (type(client), client.max_retries) == (openai.OpenAI, 2)


def test_a_refused_setting_leaves_a_wrapped_client_as_it_was():
    transport = httpx2.HTTPTransport(retries=1)
    client = wrap(over(openai.OpenAI, httpx2.Client(transport=transport)))
    before = client._client._transport

    with pytest.raises(ValueError, match="would have no effect"):
        wrap(client, keepalive=1.0)

    assert client._client._transport is before


def test_a_derived_transport_stays_below():
    class Derived(httpx2.HTTPTransport):
        pass

    client = wrap(over(openai.OpenAI, httpx2.Client(transport=Derived())))

    assert client._client._transport._connections is None


def answered(request):
    return httpx2.Response(200, content=CHAT, headers={"content-type": "application/json"})


def ask(client):
    return client.chat.completions.create(model="tiny", messages=ASKED).choices[0].message.content


def test_a_transport_with_a_method_of_its_own_is_asked_as_long_as_it_has_that():
    transport = httpx2.HTTPTransport()
    client = wrap(over(openai.OpenAI, httpx2.Client(transport=transport)), max_retries=0)

    transport.handle_request = answered
    assert ask(client) == "Paris"
    del transport.handle_request
    with pytest.raises(openai.APIConnectionError) as caught:
        ask(client)

    assert isinstance(caught.value.__cause__, smartclient.ExchangeError)


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(lambda self, request: answered(request), id="function"),
        pytest.param(
            functools.wraps(httpx2.HTTPTransport.handle_request)(
                lambda self, request: answered(request)
            ),
            id="decorator",
        ),
        pytest.param(unittest.mock.Mock(side_effect=answered), id="mock"),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_class_that_is_patched_is_asked_as_long_as_it_is(monkeypatch, patch, when):
    with monkeypatch.context() as patched:
        if when == "before":
            patched.setattr(httpx2.HTTPTransport, "handle_request", patch)
        client = wrap(over(openai.OpenAI, httpx2.Client()), max_retries=0)
        patched.setattr(httpx2.HTTPTransport, "handle_request", patch)
        assert ask(client) == "Paris"
    with pytest.raises(openai.APIConnectionError) as caught:
        ask(client)

    assert isinstance(caught.value.__cause__, smartclient.ExchangeError)


def test_pytest_httpx_goes_on_answering(httpx_mock):
    httpx_mock.add_response(content=CHAT, headers={"content-type": "application/json"})

    client = wrap(over(openai.OpenAI, httpx.Client()))
    answer = client.chat.completions.create(model="tiny", messages=ASKED)

    assert answer.choices[0].message.content == "Paris"


def test_trust_and_limits_are_taken_over():
    context = ssl.create_default_context()
    limits = httpx2.Limits(max_connections=7)

    client = wrap(over(openai.OpenAI, httpx2.Client(verify=context, limits=limits)), keepalive=3.0)

    options = options_of(client)
    assert options.ssl_context is context
    assert (options.max_connections, options.idle_expiry) == (7, 3.0)


@pytest.mark.parametrize(
    ("limits", "carried"),
    [
        pytest.param({}, (60.0, None), id="usual"),
        pytest.param({"keepalive_expiry": 5.0}, (60.0, None), id="the-familys-usual"),
        pytest.param({"keepalive_expiry": 20.0}, (20.0, None), id="shorter"),
        pytest.param({"keepalive_expiry": None}, (None, None), id="for-ever"),
        pytest.param({"max_keepalive_connections": 3}, (60.0, None), id="some-are-kept"),
        pytest.param({"max_keepalive_connections": 0}, (60.0, 1), id="none-is-kept"),
    ],
)
@pytest.mark.parametrize("family", [httpx, httpx2])
def test_what_is_asked_about_idle_connections_is_taken_over(family, limits, carried):
    http_client = family.Client(limits=family.Limits(**limits))

    options = options_of(wrap(over(openai.OpenAI, http_client)))

    assert (options.idle_expiry, options.max_requests) == carried


def test_a_limit_of_the_settings_comes_first():
    limits = httpx2.Limits(keepalive_expiry=7.0, max_keepalive_connections=0)
    given = {"max_connections": 3, "keepalive": 9.0, "max_requests": 2}

    options = options_of(wrap(over(openai.OpenAI, httpx2.Client(limits=limits)), **given))

    assert (options.max_connections, options.idle_expiry, options.max_requests) == (3, 9.0, 2)


def test_without_a_limit_there_is_a_very_high_one():
    limits = httpx2.Limits(max_connections=None)

    client = wrap(over(openai.OpenAI, httpx2.Client(limits=limits)))

    assert options_of(client).max_connections == 1_000_000


def test_a_trust_of_the_settings_comes_first():
    context = ssl.create_default_context()

    client = wrap(over(openai.OpenAI, httpx2.Client()), ssl_context=context)

    assert options_of(client).ssl_context is context


def test_a_file_of_the_settings_comes_first(tmp_path):
    file = str(tmp_path / "ca.pem")

    client = wrap(over(openai.OpenAI, httpx2.Client()), ca_file=file)

    assert (options_of(client).ca_file, options_of(client).ssl_context) == (file, None)


def test_every_mounted_transport_is_upgraded_and_restored():
    """Proxies are mounted beside the main transport."""
    mounted = httpx2.HTTPTransport(proxy="http://proxy.test:1")
    http_client = httpx2.Client(mounts={"https://": mounted, "all://internal.test": None})

    client = wrap(over(openai.OpenAI, http_client))
    upgraded = list(http_client._mounts.values())
    unwrap(client)

    assert [type(one) for one in upgraded if one] == [Transport]
    assert mounted in http_client._mounts.values()
    assert None in http_client._mounts.values()


def test_a_way_out_that_trio_would_not_take_is_refused_there():
    client = wrap(over(openai.AsyncOpenAI, httpx2.AsyncClient()), proxy="http://proxy.test:1")

    async def ask():
        await client.chat.completions.create(model="tiny", messages=ASKED)

    with pytest.raises(RuntimeError, match="proxy would have no effect under trio"):
        trio.run(ask)
