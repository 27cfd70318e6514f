"""The SDKs that are installed here, blocking and async, behind one face."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest

from smartclient.transports.httpx import family_of

__all__ = ["ASKED", "EVERY", "SIDES", "Side", "entered", "items", "settled"]

ASKED: Any = [{"role": "user", "content": "What is the capital of France?"}]


def _installed(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


async def settled(value: Any) -> Any:
    """`value`, awaited where a client is async."""
    return await value if inspect.isawaitable(value) else value


async def items(stream: Any) -> list[Any]:
    """All of an iterable, blocking or async."""
    if hasattr(stream, "__aiter__"):
        return [item async for item in stream]
    return list(stream)


@asynccontextmanager
async def entered(manager: Any) -> AsyncIterator[Any]:
    """A context manager, blocking or async."""
    if hasattr(manager, "__aenter__"):
        async with manager as value:
            yield value
    else:
        with manager as value:
            yield value


class Side:
    """One SDK: how its clients are made and asked.

    Attributes:
        package: `openai` or `anthropic`.
        family: The module, `httpx` or `httpx2`, that its own clients are built on.
    """

    def __init__(self, package: ModuleType, *, is_async: bool) -> None:
        self.package, self.is_async = package, is_async
        self.is_anthropic = package.__name__ == "anthropic"
        self.name = ("Async" if is_async else "") + ("Anthropic" if self.is_anthropic else "OpenAI")
        default = "DefaultAsyncHttpxClient" if is_async else "DefaultHttpxClient"
        self._http = getattr(package, default)
        self.family = next(
            importlib.import_module(kind.__module__.partition(".")[0])
            for kind in self._http.__mro__
            if kind.__module__.partition(".")[0] in ("httpx", "httpx2")
        )

    def http(self, **options: Any) -> Any:
        """An HTTP client to give to the SDK."""
        return (self.family.AsyncClient if self.is_async else self.family.Client)(**options)

    def client(self, server: Any, **options: Any) -> Any:
        """A plain client of `server`."""
        base_url = server.base_url if self.is_anthropic else f"{server.base_url}/v1"
        made = getattr(self.package, self.name)(base_url=base_url, api_key="sk-test", **options)
        assert "http_client" in options or family_of(made._client) is self.family
        return made

    def resource(self, client: Any) -> Any:
        return client.messages if self.is_anthropic else client.chat.completions

    async def ask(self, client: Any, **more: Any) -> Any:
        """An answer, or with `stream=True` a stream."""
        given = {"model": "tiny", "max_tokens": 64, "messages": ASKED} | more
        return await settled(self.resource(client).create(**given))

    def text(self, answer: Any) -> str:
        if self.is_anthropic:
            return "".join(block.text for block in answer.content if block.type == "text")
        return answer.choices[0].message.content or ""

    async def close(self, *clients: Any) -> None:
        for client in clients:
            await settled(client.close())


SIDES = [
    Side(package, is_async=is_async)
    for name in ("openai", "anthropic")
    if (package := _installed(name)) is not None
    for is_async in (False, True)
]
EVERY = pytest.mark.parametrize("side", [pytest.param(side, id=side.name) for side in SIDES])
