"""A hundred first calls at once to a server that is far away: with HTTP/2, and without."""

from __future__ import annotations

import asyncio
import sys
from time import perf_counter
from typing import Any

from .answering import answer

__all__ = ["DELAY", "Relay", "main"]

DELAY = 0.02
"""Seconds for which the relay holds what it passes on, each way."""


class Relay(asyncio.Protocol):
    """One side of a connection that is passed on to `port`, late; there is no `tc netem` here.

    Attributes:
        num_connections: That clients have made.
    """

    num_connections = 0

    def __init__(self, port: int | None, other: Relay | None = None) -> None:
        self._port, self._other = port, other
        self._loop = asyncio.get_running_loop()
        self._early: list[bytes] = []
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._port is not None:
            Relay.num_connections += 1
            self._connecting = self._loop.create_task(self._connect(self._port))

    async def _connect(self, port: int) -> None:
        _, self._other = await self._loop.create_connection(
            lambda: Relay(None, self), "127.0.0.1", port
        )
        for data in self._early:
            self._loop.call_later(DELAY, self._other.write, data)

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early.append(data)
        else:
            self._loop.call_later(DELAY, self._other.write, data)

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._other is not None and self._other.transport is not None:
            self._other.transport.close()


async def _relay(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Relay(port), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, answer, lambda: Relay.num_connections)
    server.close()


async def _burst(url: str, http_version: Any, calls: int) -> list[float]:
    """Seconds until each call's first event, all begun at once by a client that is new."""
    import smartclient

    client = smartclient.AsyncClient(
        provider="openai", base_url=f"{url}/v1", api_key="none", http_version=http_version
    )

    async def first_event(number: int) -> float:
        begun = perf_counter()
        question = [{"role": "user", "content": f"Question {number}"}]
        stream = await client.chat.completions.create(model="m", messages=question, stream=True)
        await anext(stream)
        seconds = perf_counter() - begun
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        return seconds

    taken = await asyncio.gather(*map(first_event, range(calls)))
    await client.close()
    return taken


def main(role: str, where: str, http_version: str = "auto") -> None:
    """Pass bytes on to a port (`relay`), or make the calls that are asked for (`client`)."""
    if role == "relay":
        asyncio.run(_relay(int(where)))
        return
    asyncio.run(_burst(where, http_version, 1))  # loads and builds what a process needs once
    answer(lambda url, calls: asyncio.run(_burst(url, http_version, calls)))


if __name__ == "__main__":
    main(*sys.argv[1:])
