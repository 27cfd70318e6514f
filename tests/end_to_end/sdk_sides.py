"""The official SDKs, sync and async, wrapped, behind one face."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest

import smartclient

from .raw_server import RawServer

__all__ = ["SIDES", "SdkSide", "chunked", "event_stream"]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(*pieces: bytes) -> bytes:
    """A stream's head and its first chunks; the rest is left to the test."""
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def event_stream(*pieces: bytes) -> bytes:
    """A whole reply, its transfer ended in good order."""
    return chunked(*pieces) + b"0\r\n\r\n"


class SdkSide:
    """One SDK on one HTTP family."""

    def __init__(self, package: Any, family: Any, *, is_async: bool) -> None:
        self.package, self.family, self.is_async = package, family, is_async
        self.is_anthropic = package is anthropic

    def client(self, server: RawServer, **options: Any) -> Any:
        """A wrapped client of `server`."""
        name = ("Async" if self.is_async else "") + ("Anthropic" if self.is_anthropic else "OpenAI")
        http = self.family.AsyncClient() if self.is_async else self.family.Client()
        made = getattr(self.package, name)(
            base_url=server.url.removesuffix("/v1/messages"),
            api_key="sk-test",
            http_client=http,
            **options,
        )
        return smartclient.wrap(made, wait=lambda state: 0.0)

    def call(self, client: Any, **more: Any) -> Any:
        asked: Any = [{"role": "user", "content": "hi"}]
        resource = client.messages if self.is_anthropic else client.chat.completions
        return resource.create(model="tiny", max_tokens=8, messages=asked, **more)

    def fetch(self, client: Any) -> Any:
        """A whole answer; an async client is closed after it."""
        if not self.is_async:
            return self.call(client)

        async def main() -> Any:
            async with client:
                return await self.call(client)

        return asyncio.run(main())

    def stream(self, client: Any) -> list[Any]:
        """Every event of a stream; an async client is closed after it."""
        if not self.is_async:
            return list(self.call(client, stream=True))

        async def main() -> list[Any]:
            async with client:
                return [event async for event in await self.call(client, stream=True)]

        return asyncio.run(main())


SIDES = [
    pytest.param(SdkSide(openai, httpx2, is_async=False), id="openai"),
    pytest.param(SdkSide(openai, httpx, is_async=False), id="openai-on-httpx"),
    pytest.param(SdkSide(anthropic, httpx2, is_async=False), id="anthropic"),
    pytest.param(SdkSide(openai, httpx2, is_async=True), id="async-openai"),
    pytest.param(SdkSide(openai, httpx, is_async=True), id="async-openai-on-httpx"),
    pytest.param(SdkSide(anthropic, httpx2, is_async=True), id="async-anthropic"),
]
