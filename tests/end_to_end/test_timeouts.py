"""Each limit of a call ends it, says which it was and where, and stops the server."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from msgspec.structs import replace

import smartclient
from smartclient import ExchangeError, Timeout
from tests.smartclient.fakes import START, text

from .raw_server import RawServer
from .sdk_sides import SIDES, chunked

ASKED = {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}
PING = b": ping\n\n"


def trickle(*begun: bytes, piece: bytes = PING, every: float = 0.01):
    """Begin a stream, then send `piece` again and again until the client leaves."""

    def script(peer):
        peer.request()
        peer.send(chunked(*begun))
        with contextlib.suppress(OSError):
            while True:
                time.sleep(every)
                peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    return script


def silent(*begun: bytes):
    def script(peer):
        peer.request()
        if begun:
            peer.send(chunked(*begun))
        peer.until_closed()

    return script


def streamed(url: str, kind: str, **options):
    """Read a stream to its end, through our own client."""
    base = url.removesuffix("/v1/messages")
    if kind == "threads":
        with (
            smartclient.Client(base_url=base, api_key="k", **options) as client,
            client.messages.stream(**ASKED) as stream,
        ):
            return list(stream)

    async def main():
        async with (
            smartclient.AsyncClient(base_url=base, api_key="k", **options) as client,
            client.messages.stream(**ASKED) as stream,
        ):
            return [event async for event in stream]

    return asyncio.run(main())


@pytest.fixture(params=["threads", "asyncio"])
def kind(request):
    return request.param


@pytest.mark.parametrize(
    ("script", "limits", "ended"),
    [
        pytest.param(
            silent(), {"first_event": 0.1}, ("first_event_timeout", "0.1 s", "ttft"), id="silence"
        ),
        pytest.param(
            trickle(),
            {"first_event": 0.1},
            ("first_event_timeout", "0.1 s", "decode"),
            id="pings-first",
        ),
        pytest.param(
            silent(START, text("Pa")),
            {"idle": 0.1},
            ("idle_timeout", "0.1 s", "decode"),
            id="stall",
        ),
        pytest.param(
            trickle(START, text("Pa")),
            {"idle": 0.1},
            ("idle_timeout", "0.1 s", "decode"),
            id="pings",
        ),
        pytest.param(
            trickle(START, text("Pa"), piece=text("x")),
            {"total": 0.2},
            ("total_timeout", "0.2 s", "decode"),
            id="trickle",
        ),
        pytest.param(silent(), {"total": 0.2}, ("total_timeout", "0.2 s", "ttft"), id="no-reply"),
    ],
)
def test_a_limit_ends_the_stream_names_itself_and_stops_the_server(kind, script, limits, ended):
    error_kind, seconds, stage = ended
    with RawServer(script) as server:
        with pytest.raises(ExchangeError) as caught:
            streamed(server.url, kind, timeout=Timeout(**limits))

        assert server.wait_closed(1)

    error = caught.value
    assert error.kind == error_kind
    assert seconds in str(error)
    assert f"in stage {stage}" in str(error)
    assert server.num_connections == 1


def test_what_had_come_is_in_the_error(kind):
    with RawServer(silent(START, text("Pa"))) as server, pytest.raises(ExchangeError) as caught:
        streamed(server.url, kind, timeout=Timeout(idle=0.05))

    assert caught.value.partial.content[0].text == "Pa"


def test_the_whole_time_bounds_waits_and_attempts(kind):
    def overloaded(peer):
        while peer.request() is not None:
            peer.send(b"HTTP/1.1 529 \r\ncontent-length: 2\r\nretry-after: 0.1\r\n\r\n{}")

    with RawServer(overloaded) as server, pytest.raises(smartclient.OverloadedError) as caught:
        streamed(server.url, kind, timeout=Timeout(total=0.25), max_retries=50)

    assert 2 <= caught.value.attempts <= 3


def test_one_number_is_a_silence_without_content(kind):
    with RawServer(trickle(START, text("Pa"))) as server, pytest.raises(ExchangeError) as caught:
        streamed(server.url, kind, timeout=0.1)

    assert caught.value.kind == "idle_timeout"


@pytest.mark.sdk
@pytest.mark.parametrize("side", SIDES)
def test_an_sdk_gets_our_limits_beside_its_own(side):
    """Pings kept dead streams open under both SDKs."""
    begun = START + text("Pa") if side.is_anthropic else b""
    with RawServer(trickle(begun) if begun else trickle()) as server:
        client = side.client(server)
        smartclient.wrap(client, timeout=replace(Timeout(), idle=0.1, first_event=0.1))

        with pytest.raises(side.package.APIConnectionError):
            side.stream(client)

        assert server.wait_closed(1)
        assert server.num_connections == 1
