"""What the plain SDKs do with connections, and with time.

Seen with openai 3.57, anthropic 2.14 and httpx2 2.16; each test names the public report.
"""

from __future__ import annotations

import socket
import time

import anthropic
import httpx2
import openai
import pytest

import server_reference
from server_reference.scripted import ErrorAnswer, fault
from tests.end_to_end.plain_sdks import ANSWER, PlainSdk, both_sdks

pytestmark = pytest.mark.sdk

BUSY = ErrorAnswer(429, headers={"retry-after-ms": "1"})
LIMIT = 0.4


@both_sdks
def test_a_call_waits_ten_minutes_for_one_of_a_thousand_connections(sdk):
    """openai-python#821, #2539, #971."""
    limits = sdk.package.DEFAULT_CONNECTION_LIMITS

    assert (limits.max_connections, limits.max_keepalive_connections) == (1000, 100)
    assert sdk.package.DEFAULT_TIMEOUT.pool == 600


@both_sdks
def test_an_idle_connection_is_kept_for_five_seconds(sdk):
    """pipecat PR#307: a handshake on nearly every call."""
    assert sdk.package.DEFAULT_CONNECTION_LIMITS.keepalive_expiry == 5.0


@both_sdks
def test_a_refused_stream_costs_a_connection_at_each_retry(sdk):
    """mistralai/client-python#532: the refusal's body is left unread."""
    with server_reference.scripted(BUSY) as server, sdk.client(server) as client:
        for _ in range(5):
            with pytest.raises(sdk.package.RateLimitError):
                sdk.ask(client, stream=True)

        counted = server.counters()
        assert (counted.requests, counted.connections_opened) == (15, 11)


@both_sdks
@pytest.mark.parametrize("retries", [0, 1])
def test_a_connection_that_went_stale_fails_a_call_without_retries(sdk, retries):
    """httpx#2983, #327: a request that nobody read is not sent again by the transport."""
    stale = ANSWER | fault("stale_keepalive")
    with (
        server_reference.scripted(stale) as server,
        sdk.client(server, max_retries=retries) as client,
    ):
        sdk.ask(client)

        error = sdk.fails(client)

    assert isinstance(error, sdk.package.APIConnectionError) is (retries == 0)


@pytest.mark.parametrize(
    ("sdk", "is_on"),
    [
        pytest.param(PlainSdk(openai), False, id="openai"),
        pytest.param(PlainSdk(anthropic), True, id="anthropic"),
    ],
)
def test_openai_sends_no_keepalive_probes(sdk, is_on):
    """openai-python#3269, PR#3270: a connection that a router forgot is waited on for ever."""
    with (
        server_reference.scripted(ANSWER | fault("abandonable_stream")) as server,
        sdk.client(server) as client,
        sdk.ask(client, stream=True) as stream,
    ):
        wire = stream.response.extensions["network_stream"].get_extra_info("socket")

        assert bool(wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) is is_on


@both_sdks
def test_a_timeout_is_no_limit_on_the_whole_call(sdk):
    """openai-python#2599; langchain#36056: bytes trickle, each in time."""
    slow = ANSWER | fault("slow_events", seconds=LIMIT / 2)
    with server_reference.scripted(slow) as server, sdk.client(server, timeout=LIMIT) as client:
        start = time.monotonic()
        texts = sdk.texts(client)

    assert "".join(texts) == "Hello big wide world"
    assert time.monotonic() - start > 2 * LIMIT


@both_sdks
def test_pings_keep_a_dead_stream_from_timing_out(sdk):
    """opencode-claude-auth PR#139: only when the pings end too, the limit is felt."""
    dead = ANSWER | fault("pings_only", interval=LIMIT / 4, pings=16)
    with server_reference.scripted(dead) as server, sdk.client(server, timeout=LIMIT) as client:
        start = time.monotonic()
        with pytest.raises((sdk.package.APITimeoutError, httpx2.ReadTimeout)):
            sdk.stream(client)

    assert time.monotonic() - start > 4 * LIMIT
