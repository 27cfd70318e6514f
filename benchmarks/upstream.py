"""A scripted server on loopback, for what a client costs; it runs in a process of its own.

It reads requests as they are written by the clients that are measured, and answers from
bytes that were made before. A stream has as many text events as the request's `max_tokens`
says; `model` says how they come: `burst` in one write, `spaced` each in a packet of its own.
Nothing is validated.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import cache

from .replies import anthropic_reply, anthropic_stream, openai_reply, openai_stream

__all__ = ["Upstream", "main"]

_SPACE = 0.001  # seconds between events that are to come alone
_HEAD = b"HTTP/1.1 200 OK\r\nrequest-id: req_1\r\nx-request-id: req_1\r\n"


class Upstream(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._buffer = b""
        self._streaming: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._streaming is not None:
            self._streaming.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        length = _content_length(head) if end else 0
        if not end or len(rest) < length:
            return
        self._buffer = rest[length:]
        self._answer(is_anthropic=b"/messages " in head, body=json.loads(rest[:length]))

    def _answer(self, *, is_anthropic: bool, body: dict[str, object]) -> None:
        if not body.get("stream"):
            self._transport.write(_whole(is_anthropic))
            return
        size = body.get("max_tokens")
        assert isinstance(size, int)
        if body["model"] == "spaced":
            self._streaming = asyncio.ensure_future(self._space(is_anthropic, size))
        else:
            self._transport.write(_burst(is_anthropic, size))

    async def _space(self, is_anthropic: bool, size: int) -> None:
        for piece in _pieces(is_anthropic, size):
            self._transport.write(piece)
            await asyncio.sleep(_SPACE)


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


@cache
def _whole(is_anthropic: bool) -> bytes:
    body = anthropic_reply() if is_anthropic else openai_reply()
    fields = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return _HEAD + fields + body


@cache
def _pieces(is_anthropic: bool, size: int) -> tuple[bytes, ...]:
    """The head, then each event as a chunk; the last one brings the end of the body."""
    fields = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    events = anthropic_stream(size) if is_anthropic else openai_stream(size)
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
    return (_HEAD + fields, *chunks[:-1], chunks[-1] + b"0\r\n\r\n")


@cache
def _burst(is_anthropic: bool, size: int) -> bytes:
    return b"".join(_pieces(is_anthropic, size))


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Upstream, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until whoever started it lets go
    server.close()


def main() -> None:
    """Print the port, then serve until standard input ends."""
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
