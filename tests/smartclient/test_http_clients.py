"""How httpx and httpx2 clients of ours are made, and what they are to `wrap` and `last_report`."""

from __future__ import annotations

import gc
import ssl
import sys

import anthropic
import httpx
import httpx2
import openai
import pytest

import smartclient
from smartclient import Settings, Timeout, last_report, unwrap, wrap
from smartclient.transports.httpx import AsyncTransport, Transport

MADE = [
    pytest.param("httpx_client", httpx.Client, id="httpx"),
    pytest.param("async_httpx_client", httpx.AsyncClient, id="async-httpx"),
    pytest.param("httpx2_client", httpx2.Client, id="httpx2"),
    pytest.param("async_httpx2_client", httpx2.AsyncClient, id="async-httpx2"),
]
SDKS = [
    pytest.param(openai.OpenAI, "httpx2_client", id="openai"),
    pytest.param(openai.OpenAI, "httpx_client", id="openai-on-httpx"),
    pytest.param(openai.AsyncOpenAI, "async_httpx2_client", id="async-openai"),
    pytest.param(anthropic.Anthropic, "httpx2_client", id="anthropic"),
    pytest.param(anthropic.AsyncAnthropic, "async_httpx2_client", id="async-anthropic"),
]
every_one = pytest.mark.parametrize(("name", "kind"), MADE)
every_sdk = pytest.mark.parametrize(("sdk", "name"), SDKS)


def made(name, *settings, **options):
    return getattr(smartclient, name)(*settings, **options)


# Made.


@every_one
def test_a_client_is_the_familys_own(name, kind):
    client = made(name)

    assert type(client) is kind
    assert isinstance(client._transport, (Transport, AsyncTransport))
    assert client._mounts == {}


@every_one
def test_the_settings_say_how_long_every_request_may_take(name, kind):
    limits = made(name, timeout=Timeout(connect=1.0, pool=2.0, write=3.0, read=4.0)).timeout

    assert (limits.connect, limits.pool, limits.write, limits.read) == (1.0, 2.0, 3.0, 4.0)


@every_one
def test_a_timeout_of_the_familys_own_is_taken(name, kind):
    family = sys.modules[kind.__module__.partition(".")[0]]
    settings = Settings(timeout=Timeout(idle=9.0))

    client = made(name, settings, timeout=family.Timeout(5.0, read=None))

    assert client.timeout == family.Timeout(5.0, read=None)
    ours = client._transport.pipeline.settings.timeout
    assert ours == Timeout(connect=5.0, pool=5.0, write=5.0, read=None, idle=9.0)


@every_one
def test_an_environment_that_is_left_alone_is_left_alone_by_the_client_too(name, kind):
    assert [made(name, trust_env=told).trust_env for told in (True, False)] == [True, False]


@every_one
def test_what_the_client_keeps_itself_is_passed_on(name, kind):
    client = made(
        name, base_url="http://a.test/v1", headers={"x-a": "b"}, follow_redirects=True, auth=None
    )

    assert str(client.base_url) == "http://a.test/v1/"
    assert (client.headers["x-a"], client.follow_redirects) == ("b", True)


@every_one
def test_options_come_before_the_settings(name, kind):
    client = made(name, Settings(max_retries=1, keepalive=3.0), max_retries=2)

    settings = client._transport.pipeline.settings
    assert (settings.max_retries, settings.keepalive) == (2, 3.0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        pytest.param({"max_retrys": 1}, TypeError, "did you mean 'max_retries'", id="unknown"),
        pytest.param({"base_ulr": ""}, TypeError, "did you mean 'base_url'", id="unknown-family"),
        pytest.param({"verify": False}, TypeError, "give ca_file, trust_store or", id="verify"),
        pytest.param({"transport": None}, TypeError, "is what this makes", id="transport"),
        pytest.param({"limits": None}, TypeError, "give max_connections and", id="limits"),
        pytest.param({"settings": 5}, TypeError, "must be a Settings, not int", id="settings"),
        pytest.param({"max_retries": -1}, ValueError, "at least 0", id="range"),
        pytest.param({"ca_file": "/no/such"}, ValueError, "does not exist", id="file"),
    ],
)
@every_one
def test_an_option_that_cannot_be_is_refused(name, kind, options, error, message):
    with pytest.raises(error, match=message):
        made(name, **options)


def test_a_password_is_in_no_frame_of_an_error():
    with pytest.raises(ValueError, match="must end after host and port") as caught:
        smartclient.httpx_client(proxy="http://me:s3cret@proxy.test:1/path")

    frame = caught.tb.tb_next
    while frame is not None:
        assert "s3cret" not in repr(frame.tb_frame.f_locals)
        frame = frame.tb_next


@pytest.mark.parametrize("name", ["httpx2_client", "async_httpx2_client"])
def test_a_family_that_is_not_installed_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)

    with pytest.raises(ImportError, match=r"httpx2 is not installed; run `pip install httpx2`"):
        made(name)


def test_a_family_that_is_broken_says_so_itself(monkeypatch):
    for module in [one for one in sys.modules if one.partition(".")[0] == "httpx2"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "httpx2._client", None)

    with pytest.raises(ModuleNotFoundError, match=r"httpx2\._client"):
        smartclient.httpx2_client()


@every_one
def test_a_client_that_is_dropped_leaves_no_warning(name, kind):
    client = made(name)

    del client

    assert gc.collect() >= 0  # a warning in a finalizer would fail this test


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="none"),
        pytest.param({"trust_store": "system"}, id="trust-store"),
        pytest.param({"ssl_context": ssl.create_default_context()}, id="context"),
        pytest.param({"proxy": "http://proxy.test:1", "max_age": None}, id="proxy"),
        pytest.param({"http_version": "2", "max_requests": 3}, id="http2"),
        pytest.param({"trust_env": False, "local_address": "127.0.0.1"}, id="address"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_its_connections_are_those_of_our_own_client_with_these_settings(is_async, options):
    """So that they are shared."""
    own = (smartclient.AsyncClient if is_async else smartclient.Client)(api_key="k", **options)

    client = made("async_httpx2_client" if is_async else "httpx2_client", **options)

    assert client._transport._connections._options == own._connections._options


# Reported.


@every_one
def test_there_is_no_report_before_the_first_call(name, kind):
    assert last_report(made(name)) is None


@pytest.mark.parametrize("kind", [httpx.Client, httpx2.AsyncClient])
def test_a_client_that_is_not_ours_has_none(kind):
    with pytest.raises(TypeError, match="has no reports"):
        last_report(kind())


# Under an SDK.


@pytest.mark.sdk
@every_sdk
def test_wrap_installs_nothing_twice_and_unwrap_takes_nothing_away(sdk, name):
    http_client = made(name)
    transport = http_client._transport
    client = sdk(api_key="k", http_client=http_client)

    wrap(client)
    assert type(client) is not sdk
    assert http_client._transport is transport
    unwrap(client)

    assert type(client) is sdk
    assert http_client._transport is transport


@pytest.mark.sdk
@every_sdk
@pytest.mark.parametrize("when", ["at first", "wrapped already"])
def test_settings_that_the_http_client_has_are_refused_by_wrap(sdk, name, when):
    client = sdk(api_key="k", http_client=made(name))
    if when == "wrapped already":
        wrap(client)
    before = type(client)

    with pytest.raises(ValueError, match="was made by smartclient, and has its settings"):
        wrap(client, on_report=print)
    with pytest.raises(ValueError, match="max_retries alone can be given"):
        wrap(client, Settings(max_retries=3))

    assert type(client) is before


@pytest.mark.sdk
@every_sdk
def test_the_limit_of_retries_is_the_sdks_to_have(sdk, name):
    client = sdk(api_key="k", http_client=made(name))

    assert wrap(client, max_retries=7).max_retries == 7
    assert unwrap(client).max_retries == 2


@pytest.mark.sdk
def test_two_sdk_clients_may_share_one():
    http_client = smartclient.httpx2_client()
    first, second = (openai.OpenAI(api_key=key, http_client=http_client) for key in "ab")
    transport = http_client._transport

    wrap(first), wrap(second)
    unwrap(first)

    assert list(transport.users) == [second]
    assert unwrap(second)._client._transport is transport


def test_a_port_that_cannot_be_is_an_error_of_the_family():
    with (
        smartclient.httpx_client(max_retries=0) as client,
        pytest.raises(httpx.UnsupportedProtocol, match="at most 65535"),
    ):
        client.get("http://127.0.0.1:99999")
