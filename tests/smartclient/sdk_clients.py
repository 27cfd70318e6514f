"""The official SDKs over a transport of the user's own: how a client is made and asked."""

from __future__ import annotations

import anthropic
import httpx
import httpx2
import openai
import pytest

from tests.smartclient.fakes import ASYNCIO, BLOCKING, CHAT, MESSAGE, TRIO

__all__ = ["ASKED", "SDKS", "STREAMING", "Sdk"]

ASKED = [{"role": "user", "content": "What is the capital of France?"}]


class Scripted:
    """A transport of the user's own: answers in order, with (status, body, headers)."""

    def __init__(self, family, answers) -> None:
        self._family, self._answers = family, list(answers)
        self.requests = []

    def _answer(self, request):
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, content, headers = answer
        headers = {"content-type": "application/json"} | headers
        return self._family.Response(status, content=content, headers=headers)

    def handle_request(self, request):
        return self._answer(request)

    async def handle_async_request(self, request):
        return self._answer(request)


class Sdk:
    """One SDK in one world: how its client is made and asked."""

    def __init__(self, kind, family, world) -> None:
        self.kind, self.family, self.world = kind, family, world
        self.is_anthropic = kind in (anthropic.Anthropic, anthropic.AsyncAnthropic)
        self.answer = (200, MESSAGE if self.is_anthropic else CHAT, {})

    def client(self, *answers, **options):
        """A client over a transport of the user's own, and that transport."""
        transport_class = (
            self.family.AsyncBaseTransport if self.world.is_async else (self.family.BaseTransport)
        )
        transport = type("Mine", (Scripted, transport_class), {})(self.family, answers)
        http = self.family.AsyncClient if self.world.is_async else self.family.Client
        client = self.kind(
            api_key="sk-test",
            base_url="http://provider.test/v1",
            http_client=http(transport=transport),
            **options,
        )
        return client, transport

    def resource(self, client):
        return client.messages if self.is_anthropic else client.chat.completions

    def asked(self, client, **more):
        given = {"model": "tiny", "messages": ASKED} | more
        if self.is_anthropic:
            given["max_tokens"] = 8
        return self.resource(client).create(**given)

    def ask(self, client):
        """Ask for a whole answer."""
        return self.world.do(self.asked(client))

    def stream(self, client):
        """Ask for a stream, and read it to its end in the same event loop."""
        if not self.world.is_async:
            return list(self.asked(client, stream=True))

        async def read():
            return [event async for event in await self.asked(client, stream=True)]

        return self.world.do(read())

    def text(self, answer):
        return answer.content[0].text if self.is_anthropic else answer.choices[0].message.content


SDKS = [
    pytest.param(Sdk(openai.OpenAI, httpx2, BLOCKING), id="openai"),
    pytest.param(Sdk(openai.OpenAI, httpx, BLOCKING), id="openai-on-httpx"),
    pytest.param(Sdk(anthropic.Anthropic, httpx2, BLOCKING), id="anthropic"),
    pytest.param(Sdk(openai.AsyncOpenAI, httpx2, ASYNCIO), id="async-openai"),
    pytest.param(Sdk(openai.AsyncOpenAI, httpx, ASYNCIO), id="async-openai-on-httpx"),
    pytest.param(Sdk(anthropic.AsyncAnthropic, httpx2, ASYNCIO), id="async-anthropic"),
    pytest.param(Sdk(openai.AsyncOpenAI, httpx2, TRIO), id="trio-openai"),
    pytest.param(Sdk(anthropic.AsyncAnthropic, httpx2, TRIO), id="trio-anthropic"),
]

# Under trio, openai leaves a generator of its own half-read, wrapped or not; trio warns of it.
STREAMING = [one for one in SDKS if one.id != "trio-openai"]
