"""One call in each way that our layer sees: our clients and wrapped SDKs, sync and async."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import anthropic
import openai
import pytest

import smartclient
from smartclient import CallReport

__all__ = ["APIS", "PRICES", "Caller", "callers"]

PRICES = {
    "m": {
        "prices": {
            "input": 1,
            "output": 2,
            "cache_read": 0.1,
            "cache_write": {"5m": 1.25, "30m": 1.5},
        }
    }
}
ASKED: Any = [{"role": "user", "content": "hi"}]
APIS = ("messages", "chat", "responses")


class Caller:
    """Makes one call, and gives its report.

    Args:
        api: Which format it speaks.
        is_sdk: Whether through a wrapped SDK.
    """

    def __init__(self, api: str, *, is_sdk: bool, is_async: bool) -> None:
        self.api, self.is_sdk, self.is_async = api, is_sdk, is_async

    def report(
        self, server: Any, *, stream: bool = True, leave: int | None = None, **more: Any
    ) -> CallReport:
        """The report of a call, of which `leave` events are read; `None` reads to the end."""
        client = self._client(server)
        if self.is_async:
            asyncio.run(self._ask_async(client, stream=stream, leave=leave, **more))
        else:
            self._ask(client, stream=stream, leave=leave, **more)
        report = smartclient.last_report(client)
        assert report is not None
        return report

    def _client(self, server: Any) -> Any:
        options: dict[str, Any] = {"catalog": PRICES, "wait": lambda state: 0.0}
        is_anthropic = self.api == "messages"
        url = server.base_url if is_anthropic else f"{server.base_url}/v1"
        if not self.is_sdk:
            kind = smartclient.AsyncClient if self.is_async else smartclient.Client
            provider = "anthropic" if is_anthropic else "openai"
            return kind(provider=provider, base_url=url, api_key="sk-test", **options)
        package: Any = anthropic if is_anthropic else openai
        name = ("Async" if self.is_async else "") + ("Anthropic" if is_anthropic else "OpenAI")
        return smartclient.wrap(getattr(package, name)(base_url=url, api_key="sk-test"), **options)

    def _create(self, client: Any, *, stream: bool, **more: Any) -> Any:
        given = {"model": "m", "stream": stream} | more
        if self.api == "responses":
            return client.responses.create(input="hi", **given)
        if self.api == "messages":
            return client.messages.create(messages=ASKED, max_tokens=9, **given)
        if stream:
            given["stream_options"] = {"include_usage": True}
        return client.chat.completions.create(messages=ASKED, **given)

    def _ask(self, client: Any, *, stream: bool, leave: int | None, **more: Any) -> None:
        with client, contextlib.suppress(smartclient.SmartClientError, OSError, _SDK_ERRORS):
            answer = self._create(client, stream=stream, **more)
            if stream:
                list(itertools.islice(answer, leave))
                answer.close()

    async def _ask_async(
        self, client: Any, *, stream: bool, leave: int | None, **more: Any
    ) -> None:
        with contextlib.suppress(smartclient.SmartClientError, OSError, _SDK_ERRORS):
            async with client:
                answer = await self._create(client, stream=stream, **more)
                if stream:
                    number = 0
                    async for _ in answer:
                        number += 1
                        if number == leave:
                            break
                    await answer.close()


_SDK_ERRORS = openai.OpenAIError | anthropic.AnthropicError


def callers(*apis: str) -> Any:
    """The parametrisation of a test over the ways to call by `apis`; without `long`, half."""
    ways = itertools.product(apis, [False, True], [False, True])
    return pytest.mark.parametrize(
        "caller",
        [
            pytest.param(
                Caller(api, is_sdk=is_sdk, is_async=is_async),
                id="-".join([api, "sdk" if is_sdk else "own", "async" if is_async else "sync"]),
                marks=[] if is_sdk is is_async else [pytest.mark.long],
            )
            for api, is_sdk, is_async in ways
        ],
    )
