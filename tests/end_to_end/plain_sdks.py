"""The official SDKs as they are, behind one face, against the scripted server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from server_reference.scripted import Answer
from server_reference.scripted.server import ScriptedServer

__all__ = ["ANSWER", "BODY", "PlainSdk", "both_sdks", "over_http2"]

ANSWER = Answer("Hello big wide world")
ASKED: list[Any] = [{"role": "user", "content": "hi"}]
BODY = {"model": "m", "max_tokens": 9, "stream": True, "messages": ASKED}
"""A streamed request, for who sends it without an SDK."""


class PlainSdk:
    """One SDK, `openai` or `anthropic`, with nothing of ours in it."""

    def __init__(self, package: Any) -> None:
        self.package = package
        self.is_openai = package is openai

    @contextmanager
    def client(self, server: ScriptedServer, **options: Any) -> Iterator[Any]:
        made = self.package.OpenAI if self.is_openai else self.package.Anthropic
        url = server.base_url + ("/v1" if self.is_openai else "")
        with made(base_url=url, api_key="sk-test", **options) as client:
            yield client

    def ask(self, client: Any, **more: Any) -> Any:
        """A whole answer, or with `stream=True` the stream."""
        if self.is_openai:
            return client.chat.completions.create(model="m", messages=ASKED, **more)
        return client.messages.create(model="m", max_tokens=9, messages=ASKED, **more)

    def stream(self, client: Any) -> list[Any]:
        """Every event of a stream."""
        return list(self.ask(client, stream=True))

    def texts(self, client: Any) -> list[str]:
        """The pieces of a stream's text."""
        if self.is_openai:
            deltas = [chunk.choices[0].delta for chunk in self.stream(client) if chunk.choices]
            return [delta.content for delta in deltas if delta.content]
        events = self.stream(client)
        return [event.delta.text for event in events if event.type == "content_block_delta"]

    def fails(self, client: Any) -> Exception | None:
        """What a call raises."""
        try:
            self.ask(client)
        except Exception as error:
            return error
        return None


both_sdks = pytest.mark.parametrize(
    "sdk",
    [
        pytest.param(PlainSdk(openai), id="openai"),
        pytest.param(PlainSdk(anthropic), id="anthropic"),
    ],
)


def over_http2(server: ScriptedServer, **options: Any) -> httpx2.Client:
    """The SDKs' HTTP client, speaking HTTP/2 by prior knowledge."""
    return httpx2.Client(http1=False, http2=True, base_url=server.base_url, **options)
