"""HTTP/2 for both bodies of `smartclient.net`: a server that speaks it, and clients of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import server_reference
from tests.end_to_end.net_sides import Client, Side, read_all

__all__ = ["CHAT", "Http2Side", "http2_side", "until"]

CHAT = json.dumps(
    {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
).encode()


class Http2Side:
    """A side that speaks HTTP/2, over TLS by ALPN or without it by prior knowledge."""

    def __init__(self, side: Side, *, is_tls: bool, opened: ExitStack) -> None:
        self.side, self._is_tls, self._opened = side, is_tls, opened
        self.run, self.counts = side.run, side.counts

    def serving(self, then: Any = "Hello there", **config: Any) -> Any:
        server = server_reference.scripted(then, tls=self._is_tls or None, **config)
        self._opened.callback(server.stop)
        return server

    def client(self, server: Any, **options: Any) -> Client:
        if self._is_tls:
            options["ca_file"] = server.ca_file
        return self.side.client(http_version="2", **options)

    async def chat(self, client: Client, server: Any, **changes: Any) -> tuple[Any, Any]:
        """A streamed call whose reply has begun; the reply and its timeline."""
        return await client.send(f"{server.base_url}/v1/chat/completions", body=CHAT, **changes)

    async def text(self, client: Client, server: Any, **changes: Any) -> bytes:
        """All of a streamed reply."""
        reply, _ = await self.chat(client, server, **changes)
        assert (reply.status, reply.protocol) == (200, "HTTP/2")
        return await read_all(reply)


async def until(is_so: Callable[[], bool]) -> None:
    """Let others go on until something is so, for 5 s at most."""
    for _ in range(500):
        if is_so():
            return
        await asyncio.sleep(0.01)
    assert is_so()


@contextmanager
def http2_side(side: Side, *, is_tls: bool) -> Iterator[Http2Side]:
    """Servers end with it."""
    with ExitStack() as opened:
        yield Http2Side(side, is_tls=is_tls, opened=opened)
