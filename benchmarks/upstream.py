"""A server on loopback, for what a client costs and what it holds; in a process of its own.

It reads requests as they are written by the clients that are measured, and answers from
templates that were made before. A stream has as many text events as the request's
`max_tokens` says; `model` says how they come: `burst` in one write, `spaced` each in a packet
of its own, `held` one and then none, the stream staying open. Nothing is validated.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from functools import cache

from .answering import answer
from .replies import anthropic_reply, anthropic_stream, numbered, openai_reply, openai_stream

__all__ = ["Upstream", "main"]

_SPACE = 0.001  # seconds between events that are to come alone
_HEAD = b"HTTP/1.1 200 OK\r\nrequest-id: req_1\r\nx-request-id: req_1\r\n"


class Upstream(asyncio.Protocol):
    """One connection.

    Attributes:
        num_connections: How many there have been.
        num_calls: How many requests they brought.
    """

    num_connections = num_calls = 0

    def __init__(self) -> None:
        self._buffer = b""
        self._streaming: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        Upstream.num_connections += 1

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
        Upstream.num_calls += 1
        self._answer(is_anthropic=b"/messages " in head, asked=rest[:length])

    def _answer(self, *, is_anthropic: bool, asked: bytes) -> None:
        body = json.loads(asked)
        if not body.get("stream"):
            self._transport.write(numbered(_whole(is_anthropic), asked))
            return
        size = body["max_tokens"]
        match body["model"]:
            case "spaced":
                self._streaming = asyncio.ensure_future(self._space(is_anthropic, size, asked))
            case "held":
                begin = b"".join(_pieces(is_anthropic, size)[: 4 if is_anthropic else 3])
                self._transport.write(numbered(begin, asked))
            case _:
                self._transport.write(numbered(_burst(is_anthropic, size), asked))

    async def _space(self, is_anthropic: bool, size: int, asked: bytes) -> None:
        for piece in _pieces(is_anthropic, size):
            self._transport.write(numbered(piece, asked))
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
    """The head, then each event as a chunk; the last one brings the end of the body.

    Each is a template of its length: a number takes as much room as its mark.
    """
    fields = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    events = anthropic_stream(size) if is_anthropic else openai_stream(size)
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
    return (_HEAD + fields, *chunks[:-1], chunks[-1] + b"0\r\n\r\n")


@cache
def _burst(is_anthropic: bool, size: int) -> bytes:
    return b"".join(_pieces(is_anthropic, size))


def _counts() -> tuple[int, int]:
    return Upstream.num_connections, Upstream.num_calls


async def _serve(tls: ssl.SSLContext | None) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Upstream, "127.0.0.1", 0, ssl=tls, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, answer, _counts)  # until whoever started it lets go
    server.close()


def main(certificate: str | None = None) -> None:
    """Print the port, then serve until standard input ends; a line there asks for the counts.

    Args:
        certificate: A file with the server's key and certificate; `None` is plain.
    """
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    asyncio.run(_serve(tls))


if __name__ == "__main__":
    main(*sys.argv[1:])
