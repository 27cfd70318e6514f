"""Servers that send too much, or nonsense: a typed error under a limit, and the pool goes on."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from typing import Any

import brotli
import pytest
import zstandard

import server_reference
from server_reference.scripted import rule
from server_reference.scripted.ops import Body, Head, Pause
from smartclient import AsyncClient, Client, pool_stats
from smartclient._errors import (
    EventTooLargeError,
    ExchangeError,
    ServerError,
    SmartClientError,
)
from tests.smartclient.fakes import MESSAGE, START, STOP, text

from .raw_server import CHUNKED, Peer, RawServer, reply

JSON = b"content-type: application/json"
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
GZIP_EVENTS = EVENTS[:-2] + b"content-encoding: gzip\r\n\r\n"
ASKED: dict[str, Any] = {"model": "tiny", "max_tokens": 8, "messages": []}
LONG = 80 << 20  # more than a whole reply may be


def packed(encoding: str, size: int = LONG) -> bytes:
    """`size` spaces, which JSON may have before it begins."""
    spaces = b" " * size
    match encoding:
        case "gzip":
            return gzip.compress(spaces, 1)
        case "deflate":
            return zlib.compress(spaces, 1)
        case "br":
            return bytes(brotli.compress(spaces, quality=1))
        case "zstd":
            return zstandard.ZstdCompressor(level=1).compress(spaces)
        case _:
            return gzip.compress(gzip.compress(spaces, 1))


async def ask(client: Any, *, stream: bool) -> None:
    if isinstance(client, Client):
        found = client.messages.create(**ASKED, stream=stream)
        list(found) if stream else found
        return
    found = await client.messages.create(**ASKED, stream=stream)
    if stream:
        async for _ in found:
            pass


def error_of(
    kind: type[Any], bad: Any, *, stream: bool = False, is_whole: bool = False, **options: Any
) -> SmartClientError:
    """What the first call raises; the second, on the same client, is answered.

    Args:
        bad: What the server sends first, or does.
        is_whole: The reply ends as HTTP has it, so that its connection may be kept.
    """

    def script(peer: Peer) -> None:
        peer.request()
        if peer.number == 1:
            bad(peer) if callable(bad) else peer.send(bad)
        else:
            peer.send(reply(MESSAGE, JSON))
        while peer.request() is not None:
            peer.send(reply(MESSAGE, JSON))

    async def main(base_url: str) -> SmartClientError:
        client = kind(base_url=base_url, api_key="k", max_retries=0, timeout=5, **options)
        with pytest.raises(SmartClientError) as caught:
            await ask(client, stream=stream)
        if not is_whole:  # elsewhere, because asyncio closes in a later turn
            assert await asyncio.to_thread(server.wait_closed, 1)
        await ask(client, stream=False)
        client.close() if isinstance(client, Client) else await client.close()
        return caught.value

    with RawServer(script) as server:
        error = asyncio.run(main(server.url.removesuffix("/v1/messages")))
        assert is_whole or server.num_connections == 2
    assert (pool_stats().active, pool_stats().queued) == (0, 0)
    return error


@pytest.fixture(params=[Client, AsyncClient], ids=["blocking", "asyncio"])
def kind(request):
    return request.param


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_a_small_body_that_is_huge_without_its_coding_is_stopped_at_the_limit(kind, encoding):
    """Decoded whole, 64 KiB of gzip are 64 MiB, and five codings are anything (httpx2 PR#946)."""
    coding = b"content-encoding: " + encoding.encode()
    error = error_of(kind, reply(packed(encoding), JSON, coding), is_whole=True)

    assert isinstance(error, ExchangeError)
    assert (error.kind, "67,108,864 bytes" in str(error)) == ("limit", True)


def test_more_codings_than_five_are_refused_by_name(kind):
    coding = b"content-encoding: " + b", ".join([b"gzip"] * 6)
    error = error_of(kind, reply(b"x" * 99, JSON, coding), is_whole=True)

    assert isinstance(error, ExchangeError)
    assert (error.kind, "at most 5" in str(error)) == ("protocol", True)


def test_an_error_whose_body_is_huge_is_still_that_error(kind):
    bomb = reply(packed("gzip"), JSON, b"content-encoding: gzip", status=b"500 No")
    error = error_of(kind, bomb, is_whole=True)

    assert isinstance(error, ServerError)
    assert error.status == 500


def test_an_event_that_is_huge_without_its_coding_is_stopped_at_the_limit(kind):
    line = START + b"data: " + b"x" * LONG
    error = error_of(kind, GZIP_EVENTS + gzip.compress(line, 1), stream=True)

    assert isinstance(error, EventTooLargeError)
    assert error.limit == 32 << 20


def test_a_line_without_end_is_stopped_at_the_limit(kind):
    """A server once sent 10 GB of one line; ours sends for as long as somebody reads."""

    def endless(peer: Peer) -> None:
        peer.send(EVENTS + START + b"data: ")
        while True:
            peer.send(b"x" * 65536)

    error = error_of(kind, endless, stream=True, max_event_bytes=1 << 20)

    assert isinstance(error, EventTooLargeError)
    assert error.partial is not None
    assert "1,048,576 bytes" in str(error)


def test_a_reply_without_end_is_stopped_at_the_limit(kind):
    def endless(peer: Peer) -> None:
        peer.send(CHUNKED)
        while True:
            peer.send(b"10000\r\n" + b" " * 65536 + b"\r\n")

    error = error_of(kind, endless)

    assert isinstance(error, ExchangeError)
    assert error.kind == "limit"


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        pytest.param(b"\x16\x03\x01\x02\x00garbage", "protocol", id="garbage"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000, "limit", id="endless-header"),
        pytest.param(b"HTTP/1.1 200 OK\r\na: " + b"x" * 70_000, "limit", id="endless-value"),
        pytest.param(CHUNKED + b"5\r\n{}\r\n0\r\n\r\n", "protocol", id="chunk-shorter"),
        pytest.param(CHUNKED + b"1\r\n{}\r\n0\r\n\r\n", "protocol", id="chunk-longer"),
        pytest.param(CHUNKED + b"-1\r\n{}\r\n", "protocol", id="chunk-negative"),
        pytest.param(CHUNKED + b"f" * 17 + b"\r\n{}", "protocol", id="chunk-of-exabytes"),
        pytest.param(CHUNKED + b"1;" + b"e" * 70_000, "limit", id="endless-extension"),
        pytest.param(reply(b"", b"content-length: 5"), "protocol", id="two-lengths"),
        pytest.param(reply(b"{}").replace(b": 2", b": -2"), "protocol", id="negative-length"),
    ],
)
def test_what_is_no_http_is_a_typed_error(kind, answer, failed):
    error = error_of(kind, answer)

    assert isinstance(error, ExchangeError)
    assert error.kind == failed


@pytest.mark.parametrize("size", [100, 70_000], ids=["short", "over-64-KiB"])
def test_an_error_reply_costs_no_connection(kind, size):
    """15 attempts took 11 connections (mistralai/client-python#532)."""
    message = json.dumps({"error": {"type": "api_error", "message": "x" * size}}).encode()

    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.send(reply(message, JSON, status=b"500 No"))

    async def main(base_url: str) -> None:
        client = kind(base_url=base_url, api_key="k", max_retries=2, wait=lambda state: 0.0)
        with pytest.raises(ServerError):
            await ask(client, stream=False)

    with RawServer(script) as server:
        asyncio.run(main(server.url.removesuffix("/v1/messages")))

    assert server.num_connections == 1


def test_a_stream_in_any_coding_that_is_asked_for_is_read_as_it_comes(kind):
    events = START + text("Paris") + STOP
    body = brotli.compress(events)
    head = EVENTS[:-2] + b"content-encoding: br\r\ncontent-length: %d\r\n\r\n" % len(body)

    async def main(base_url: str) -> None:
        client = kind(base_url=base_url, api_key="k")
        await ask(client, stream=True)
        assert client.last_report.error is None
        assert client.last_report.usage.output

    def script(peer: Peer) -> None:
        assert b"accept-encoding: gzip, deflate, br, zstd" in (peer.request() or b"")
        peer.send(head + body)

    with RawServer(script) as server:
        asyncio.run(main(server.url.removesuffix("/v1/messages")))


def test_a_huge_reply_over_http2_is_reset_at_the_limit_and_the_connection_goes_on(kind):
    """The stream is given up, and not the connection that others may be on."""
    body = packed("gzip", 1 << 27)
    fields = (("content-type", "application/json"), ("content-encoding", "gzip"))

    pieces = [Body(body[at : at + 8192]) for at in range(0, len(body), 8192)]
    script = [Head(200, fields), *pieces, Pause()]

    async def main(base_url: str) -> None:
        client = kind(base_url=base_url, api_key="k", max_retries=0, http_version="2")
        with pytest.raises(ExchangeError, match="67,108,864 bytes") as caught:
            await ask(client, stream=False)
        assert caught.value.kind == "limit"
        await ask(client, stream=False)
        client.close() if isinstance(client, Client) else await client.close()

    with server_reference.scripted([rule(script, times=1)]) as server:
        server.on("Paris")
        asyncio.run(main(server.base_url))
        assert server.counters().connections_opened == 1
        assert server.counters().resets_seen == 1
