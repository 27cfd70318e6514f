"""A load generator: prepared requests over kept connections, replies counted and not parsed."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from time import perf_counter
from urllib.parse import urlsplit

from .answering import answer

__all__ = ["Connection"]

_PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}


class Connection(asyncio.Protocol):
    """Sends a request once the reply to the one before is complete, until none is left.

    Args:
        request: What is sent, each time.
        ended: Set when all replies have come, or with an error.
    """

    def __init__(self, request: bytes, num_requests: int, ended: asyncio.Future[None]) -> None:
        self._request, self._left, self._ended = request, num_requests, ended
        self._reply = bytearray()
        self.num_events = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._reply += data
        if not _is_complete(self._reply):
            return
        if not self._reply.startswith(b"HTTP/1.1 200 "):
            self._end(RuntimeError(f"the server answered {bytes(self._reply[:200])!r}"))
            return
        self.num_events += self._reply.count(b"\ndata: ")
        self._reply.clear()
        self._left -= 1
        if self._left:
            self._transport.write(self._request)
        else:
            self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or RuntimeError(f"the server closed with {self._left} replies to come"))

    def _end(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None) if error is None else self._ended.set_exception(error)
        self._transport.close()


def _is_complete(reply: bytearray) -> bool:
    """Whether a reply of either framing has ended."""
    if reply.endswith(b"\r\n0\r\n\r\n"):
        return True
    head = reply.find(b"\r\n\r\n")
    at = reply.find(b"content-length: ", 0, head if head > 0 else 0)
    if at < 0:
        return False
    return len(reply) - head - 4 == int(reply[at + 16 : reply.index(b"\r", at)])


async def _storm(
    url: str, api: str, requests: int, connections: int, stream: bool, model: str
) -> tuple[int, float]:
    """Events that came, and the seconds that it took."""
    if requests < connections:
        raise ValueError(f"{connections} connections need a request each, not {requests} in all")
    parts = urlsplit(url)
    request = _request(api, stream, model)
    loop = asyncio.get_running_loop()
    ended = [loop.create_future() for _ in range(connections)]
    begun = perf_counter()
    made = [
        await loop.create_connection(
            partial(Connection, request, requests // connections, one),
            parts.hostname or "",
            parts.port or 80,
        )
        for one in ended
    ]
    await asyncio.gather(*ended)
    return sum(connection.num_events for _, connection in made), perf_counter() - begun


def _request(api: str, stream: bool, model: str) -> bytes:
    asked = {"model": model, "max_tokens": 256, "messages": [{"role": "user", "content": "Go on."}]}
    body = json.dumps(asked | {"stream": True} if stream else asked).encode()
    head = (
        f"POST {_PATHS[api]} HTTP/1.1\r\nhost: storm\r\ncontent-type: application/json\r\n"
        f"anthropic-version: 2023-06-01\r\nx-api-key: sk-storm\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _answer(**asked: object) -> tuple[int, float]:
    return asyncio.run(_storm(sys.argv[1], **asked))  # type: ignore[arg-type]


if __name__ == "__main__":
    answer(_answer)
