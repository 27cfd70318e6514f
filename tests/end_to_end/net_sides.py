"""Both bodies of `smartclient.net` behind one face, so that a scenario is written once."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

from smartclient._call import Call, Headers, Origin, Timeline, Timeout, Trace
from smartclient.net import NetOptions, aio, blocking
from smartclient.net.pool import Counts

__all__ = ["Client", "Side", "a_call", "read_all"]


def a_call(url: str, **changes: Any) -> Call:
    """An ordinary call to `url`; a test states only what matters to it."""
    origin, target = Origin.of(url)
    fields: dict[str, Any] = {
        "method": "POST",
        "origin": origin,
        "target": target,
        "headers": Headers({"content-type": "application/json", "x-api-key": "a-key"}),
        "trace": Trace(0.0),
        "body": b"{}",
        "timeout": Timeout(connect=5.0, pool=5.0, write=5.0, read=5.0),
    }
    return Call(**(fields | changes))


class _BlockingReply:
    def __init__(self, response: blocking.Response) -> None:
        self.response = response
        self.cut = response.cut

    def __getattr__(self, name: str) -> Any:
        return getattr(self.response, name)

    async def read(self) -> bytes:
        return self.response.read()

    async def close(self, *, finished: bool = False) -> None:
        self.response.close(finished=finished)


class _BlockingClient:
    def __init__(self, connections: blocking.Connections) -> None:
        self._connections, self._routes = connections, connections._routes

    async def exchange(self, call: Call, timeline: Timeline) -> _BlockingReply:
        return _BlockingReply(self._connections.exchange(call, timeline))

    async def close(self) -> None:
        self._connections.close()


class Client:
    """One client of a side."""

    def __init__(self, connections: Any) -> None:
        self.close, self.exchange = connections.close, connections.exchange
        self.routes = connections._routes

    async def send(self, url: str, **changes: Any) -> tuple[Any, Timeline]:
        """Exchange; the reply, its body unread, and the timeline."""
        timeline = Timeline()
        reply = await self.exchange(a_call(url, **changes), timeline)
        return reply, timeline

    async def fetch(self, url: str, **changes: Any) -> bytes:
        """Exchange and read all of the body."""
        reply, _ = await self.send(url, **changes)
        return await read_all(reply)


async def read_all(reply: Any) -> bytes:
    body = b""
    while piece := await reply.read():
        body += piece
    return body


class Side:
    """`blocking` or `asyncio`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def client(self, **options: Any) -> Client:
        settings = NetOptions(**options)
        if self.name == "blocking":
            return Client(_BlockingClient(blocking.Connections(settings)))
        return Client(aio.AsyncConnections(settings))

    def counts(self) -> Counts:
        return blocking.counts() if self.name == "blocking" else aio.counts()

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        """Play `scenario`; whatever is left over shows as a warning, which is an error."""

        async def main() -> None:
            await scenario()

        gc.freeze()  # so that only what the scenario made is collected: the rest is large
        try:
            asyncio.run(main(), debug=False)
            blocking.close_idle()
            gc.collect()
        finally:
            gc.unfreeze()
