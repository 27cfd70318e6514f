"""The HTTP clients that we make, of both families, sync and async, behind one face."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import smartclient
from smartclient.net import blocking

__all__ = ["HTTP_SIDES", "HttpSide", "MadeClient", "every_side"]


async def _done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class MadeClient:
    """One client; its methods are awaited, whatever it is."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.is_async = hasattr(client, "aclose")

    @property
    def report(self) -> Any:
        return smartclient.last_report(self.client)

    async def request(self, method: str, url: str, **more: Any) -> Any:
        return await _done(self.client.request(method, url, **more))

    async def opened(self, method: str, url: str, **more: Any) -> Any:
        """A response whose body is still unread."""
        request = self.client.build_request(method, url, **more)
        return await _done(self.client.send(request, stream=True))

    async def first(self, response: Any) -> bytes:
        """The first bytes of its body; the rest stays unread."""
        if self.is_async:
            return bytes(await anext(response.stream.__aiter__()))
        return bytes(next(iter(response.stream)))

    async def read(self, response: Any) -> bytes:
        return bytes(await _done(response.aread() if self.is_async else response.read()))

    async def leave(self, response: Any) -> None:
        await _done(response.aclose() if self.is_async else response.close())

    async def close(self) -> None:
        await _done(self.client.aclose() if self.is_async else self.client.close())


class HttpSide:
    """One of the four functions; `name` is the family's."""

    def __init__(self, name: str, *, is_async: bool) -> None:
        self.is_async = is_async
        self.family: Any = __import__(name)
        self.make: Any = getattr(smartclient, ("async_" if is_async else "") + f"{name}_client")

    def run(self, scenario: Callable[[MadeClient], Awaitable[None]], **options: Any) -> None:
        """Play `scenario` with a client that is closed after it."""

        async def main() -> None:
            client = MadeClient(self.make(wait=lambda state: 0.0, **options))
            try:
                await scenario(client)
            finally:
                await client.close()

        gc.freeze()  # so that only what the scenario made is collected: the rest is large
        try:
            asyncio.run(main())
            blocking.close_idle()
            gc.collect()
        finally:
            gc.unfreeze()


HTTP_SIDES = [
    pytest.param(HttpSide("httpx", is_async=False), id="httpx"),
    pytest.param(HttpSide("httpx", is_async=True), id="async-httpx"),
    pytest.param(HttpSide("httpx2", is_async=False), id="httpx2"),
    pytest.param(HttpSide("httpx2", is_async=True), id="async-httpx2"),
]
every_side = pytest.mark.parametrize("http", HTTP_SIDES)
