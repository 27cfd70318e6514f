"""Our HTTP clients under the official SDKs: as they are, and wrapped on top."""

from __future__ import annotations

import asyncio

import anthropic
import httpx
import httpx2
import openai
import pytest
import trio

import server_reference
import smartclient
from server_reference.scripted import Answer, ErrorAnswer, rule

from .proxies import HttpProxy

pytestmark = pytest.mark.sdk

BUSY = ErrorAnswer(503, headers={"retry-after-ms": "1"})
ASKED = [{"role": "user", "content": "hi"}]


class OverOurs:
    """One SDK over an HTTP client of ours."""

    def __init__(self, kind, make) -> None:
        self.kind, self.make = kind, make
        self.is_openai = kind in (openai.OpenAI, openai.AsyncOpenAI)

    def client(self, server, *, http_client=None, **options):
        url = server.base_url + ("/v1" if self.is_openai else "")
        http_client = http_client or self.make(wait=lambda state: 0.0)
        return self.kind(base_url=url, api_key="k", http_client=http_client, **options)

    def call(self, client, **more):
        resource = client.chat.completions if self.is_openai else client.messages
        return resource.create(model="m", max_tokens=9, messages=ASKED, **more)

    def ask(self, client, *, times: int = 1, **more) -> None:
        """Calls, each read to its end; the client is closed after them."""

        async def main() -> None:
            async with client:
                for _ in range(times):
                    answer = await self.call(client, **more)
                    if more.get("stream"):
                        assert [event async for event in answer]

        if isinstance(client, (openai.AsyncOpenAI, anthropic.AsyncAnthropic)):
            asyncio.run(main())
            return
        with client:
            for _ in range(times):
                answer = self.call(client, **more)
                if more.get("stream"):
                    assert list(answer)


every_sdk = pytest.mark.parametrize(
    "sdk",
    [
        pytest.param(OverOurs(openai.OpenAI, smartclient.httpx2_client), id="openai"),
        pytest.param(OverOurs(openai.OpenAI, smartclient.httpx_client), id="openai-on-httpx"),
        pytest.param(OverOurs(anthropic.Anthropic, smartclient.httpx2_client), id="anthropic"),
        pytest.param(
            OverOurs(openai.AsyncOpenAI, smartclient.async_httpx2_client), id="async-openai"
        ),
        pytest.param(
            OverOurs(anthropic.AsyncAnthropic, smartclient.async_httpx2_client),
            id="async-anthropic",
        ),
    ],
)


def as_it_is(client):
    return client


@pytest.mark.parametrize("upgrade", [as_it_is, smartclient.wrap], ids=["plain", "wrapped"])
@pytest.mark.parametrize("limit", [0, 2])
@every_sdk
def test_the_sdks_own_limit_counts_and_is_not_multiplied(sdk, upgrade, limit):
    with server_reference.scripted(BUSY) as server:
        client = upgrade(sdk.client(server, max_retries=limit))
        with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)):
            sdk.ask(client)

        assert server.counters().requests == limit + 1


@every_sdk
def test_under_a_wrapped_sdk_all_attempts_are_one_call(sdk):
    with server_reference.scripted([rule([BUSY, Answer(text="a")])]) as server:
        client = smartclient.wrap(sdk.client(server))
        sdk.ask(client)

    report = smartclient.last_report(client)
    assert [one.status for one in report.attempts] == [503, 200]
    assert report is smartclient.last_report(client._client)


@every_sdk
def test_under_an_sdk_as_it_is_each_attempt_is_a_call(sdk):
    reports = []
    http_client = sdk.make(on_report=reports.append)
    with server_reference.scripted([rule([BUSY, Answer(text="a")])]) as server:
        client = sdk.client(server, http_client=http_client)
        sdk.ask(client)

    assert [one.status for one in reports] == [503, 200]
    assert smartclient.last_report(client) is reports[-1]


@every_sdk
def test_once_unwrapped_it_sends_again_by_itself(sdk):
    with server_reference.scripted([rule([BUSY, Answer(text="a")])]) as server:
        client = smartclient.unwrap(smartclient.wrap(sdk.client(server)))
        sdk.ask(client)

        assert server.counters().requests == 2
    assert len(smartclient.last_report(client).attempts) == 1


@every_sdk
def test_ten_streams_of_an_sdk_need_one_connection(sdk):
    with server_reference.scripted(Answer(text="a b c")) as server:
        sdk.ask(sdk.client(server), times=10, stream=True)

        assert server.counters().connections_opened == 1


def test_under_trio_a_wrapped_sdk_goes_by_the_way_of_the_settings():
    """There the family's own transport carries it, which we made with them."""

    async def main() -> None:
        async with smartclient.wrap(sdk.client(server, http_client=http_client)) as client:
            await sdk.call(client)

    sdk = OverOurs(anthropic.AsyncAnthropic, smartclient.async_httpx2_client)
    with server_reference.scripted(Answer(text="a")) as server, HttpProxy() as proxy:
        http_client = sdk.make(proxy=proxy.address)
        trio.run(main)

    assert proxy.asked == [f"POST {server.base_url}/v1/messages"]


@pytest.mark.parametrize("family", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_timeout_of_the_settings_is_the_sdks(family):
    http_client = getattr(smartclient, f"{family.__name__}_client")(timeout=7.0)

    client = openai.OpenAI(api_key="k", http_client=http_client)

    assert (client.timeout.read, client.timeout.connect) == (7.0, 5.0)
    client.close()
