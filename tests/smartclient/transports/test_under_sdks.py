"""The official SDKs, plain and over our transport, against the running server."""

from __future__ import annotations

import asyncio
import pickle
import socket
import threading
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

import server_reference
import smartclient
from smartclient.transports.httpx import AsyncTransport, Transport

pytestmark = pytest.mark.sdk

ASKED: Any = [{"role": "user", "content": "What is the capital of France?"}]
# Anthropic's SDK has no parameter for the temperature any more.
GIVEN: dict[str, Any] = {
    "model": "tiny",
    "messages": ASKED,
    "max_tokens": 12,
    "extra_body": {"temperature": 0.0},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with server_reference.start(model="tiny", api_keys=["sk-test"], num_blocks=256) as running:
        yield running


@pytest.fixture(scope="module")
def expected(server) -> str:
    """The answer, as our own client gets it."""
    with smartclient.Client(base_url=server.base_url, api_key=server.api_key) as client:
        return client.messages.create(**GIVEN).content[0].text


def an_openai(server, **more) -> OpenAI:
    return OpenAI(base_url=f"{server.base_url}/v1", api_key=server.api_key, **more)


def an_anthropic(server, **more) -> Anthropic:
    return Anthropic(base_url=server.base_url, api_key=server.api_key, **more)


SYNC = [
    pytest.param(an_openai, id="openai"),
    pytest.param(lambda s: an_openai(s, http_client=httpx.Client()), id="openai-on-httpx"),
    pytest.param(an_anthropic, id="anthropic"),
]
ASYNC = [
    pytest.param(
        lambda s: AsyncOpenAI(base_url=f"{s.base_url}/v1", api_key=s.api_key), id="openai"
    ),
    pytest.param(
        lambda s: AsyncOpenAI(
            base_url=f"{s.base_url}/v1", api_key=s.api_key, http_client=httpx.AsyncClient()
        ),
        id="openai-on-httpx",
    ),
    pytest.param(lambda s: AsyncAnthropic(base_url=s.base_url, api_key=s.api_key), id="anthropic"),
]
WRAPPED = pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "wrapped"])


def text_of(answer: Any) -> str:
    return (
        answer.content[0].text if hasattr(answer, "content") else answer.choices[0].message.content
    )


def piece_of(event: Any) -> str:
    if getattr(event, "object", "") == "chat.completion.chunk":
        return event.choices[0].delta.content or "" if event.choices else ""
    return getattr(event.delta, "text", "") if event.type == "content_block_delta" else ""


@WRAPPED
@pytest.mark.parametrize("make", SYNC)
def test_a_sync_sdk_gets_the_answer(server, expected, make, wrapped):
    with make(server) as client:
        if wrapped:
            smartclient.wrap(client)
        resource = client.messages if isinstance(client, Anthropic) else client.chat.completions

        whole = text_of(resource.create(**GIVEN))
        with resource.create(stream=True, **GIVEN) as stream:
            streamed = "".join(piece_of(event) for event in stream)

    assert whole == expected
    assert streamed == expected


@WRAPPED
@pytest.mark.parametrize("make", ASYNC)
def test_an_async_sdk_gets_the_answer(server, expected, make, wrapped):
    async def main() -> tuple[str, str]:
        async with make(server) as client:
            if wrapped:
                smartclient.wrap(client)
            is_anthropic = isinstance(client, AsyncAnthropic)
            resource = client.messages if is_anthropic else client.chat.completions
            whole = text_of(await resource.create(**GIVEN))
            async with await resource.create(stream=True, **GIVEN) as stream:
                pieces = [piece_of(event) async for event in stream]
            return whole, "".join(pieces)

    assert asyncio.run(main()) == (expected, expected)


def test_the_stream_helpers_of_the_sdks_work(server, expected):
    with an_anthropic(server) as claude, an_openai(server) as gpt:
        smartclient.wrap(claude)
        smartclient.wrap(gpt)

        with claude.messages.stream(**GIVEN) as stream:
            by_claude = stream.get_final_text()
        with gpt.chat.completions.stream(**GIVEN) as stream:
            by_gpt = "".join(event.delta for event in stream if event.type == "content.delta")

    assert (by_claude, by_gpt) == (expected, expected)


@pytest.mark.parametrize("make", SYNC)
def test_raw_responses_keep_status_and_headers(server, make):
    with smartclient.wrap(make(server)) as client:
        resource = client.messages if isinstance(client, Anthropic) else client.chat.completions

        raw = resource.with_raw_response.create(**GIVEN)

    assert raw.status_code == 200
    assert raw.headers["x-request-id"].startswith("req_")
    assert raw.http_version == "HTTP/1.1"


@pytest.mark.parametrize("make", SYNC)
def test_a_wrapped_call_is_reported(server, make):
    with smartclient.wrap(make(server)) as client:
        resource = client.messages if isinstance(client, Anthropic) else client.chat.completions

        with resource.create(stream=True, **GIVEN) as stream:
            list(stream)
        report = smartclient.last_report(client)

    assert report.status == 200
    assert report.error is None
    assert report.ttft > 0.0
    assert {"prepare", "send", "gateway", "tokenize", "prefill", "ttft", "decode"} <= set(
        report.stages
    )
    assert report.protocol == "HTTP/1.1"


def test_usage_of_a_wrapped_call_is_in_the_normal_form(server):
    with smartclient.wrap(an_anthropic(server)) as client:
        answer = client.messages.create(**GIVEN)
        usage = smartclient.last_report(client).usage

    assert usage.uncached == answer.usage.input_tokens
    assert usage.cache_read == answer.usage.cache_read_input_tokens
    assert usage.output == answer.usage.output_tokens == 12


@pytest.mark.parametrize("make", SYNC)
def test_ten_streams_use_one_connection(server, make):
    """openai-python#3440: the SDK closes a stream before the transfer's end."""
    reused = []
    with smartclient.wrap(make(server), on_report=lambda r: reused.append(r.reused)) as client:
        resource = client.messages if isinstance(client, Anthropic) else client.chat.completions

        for _ in range(10):
            with resource.create(stream=True, **GIVEN) as stream:
                list(stream)

    assert reused[1:] == [True] * 9


@pytest.mark.parametrize("make", SYNC)
def test_a_wrong_key_is_the_sdks_own_error(server, make):
    with smartclient.wrap(make(server).with_options(api_key="sk-wrong")) as client:
        resource = client.messages if isinstance(client, Anthropic) else client.chat.completions
        package = anthropic if isinstance(client, Anthropic) else openai

        with pytest.raises(package.AuthenticationError) as caught:
            resource.create(**GIVEN)

    assert caught.value.status_code == 401
    assert "sk-wrong" not in str(caught.value)


class Refusing:
    """A server that answers every request with one status, and counts."""

    def __init__(self, status: int, *fields: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests = 0
        head = [f"HTTP/1.1 {status} No", "content-length: 2", "content-type: application/json"]
        self._answer = "\r\n".join([*head, *fields, "", "{}"]).encode()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(peer,), daemon=True).start()

    def _converse(self, peer: socket.socket) -> None:
        with peer, peer.makefile("rb") as lines:
            while True:
                size = 0
                while (line := lines.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        size = int(line.split(b":")[1])
                if not line:
                    return
                lines.read(size)
                self.requests += 1
                peer.sendall(self._answer)

    def __enter__(self) -> Refusing:
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()


@pytest.mark.parametrize("limit", [0, 2], ids=["none", "two"])
def test_one_owner_of_retries_keeps_the_sdks_limit(limit):
    """Attempts must add, never multiply (litellm PR#7130)."""
    with Refusing(529, "retry-after-ms: 1") as refusing:
        client = OpenAI(base_url=refusing.url, api_key="k", max_retries=limit)
        with smartclient.wrap(client), pytest.raises(openai.InternalServerError):
            client.chat.completions.create(**GIVEN)

        assert refusing.requests == limit + 1
        assert len(smartclient.last_report(client).attempts) == limit + 1


def test_a_limit_given_for_one_call_is_kept():
    with Refusing(529, "retry-after-ms: 1") as refusing:
        client = Anthropic(base_url=refusing.url, api_key="k", max_retries=5)
        with smartclient.wrap(client), pytest.raises(anthropic.InternalServerError):
            client.with_options(max_retries=1).messages.create(**GIVEN)

        assert refusing.requests == 2


def test_an_endpoint_that_no_adapter_knows_is_retried_too():
    with Refusing(503, "retry-after-ms: 1") as refusing:
        client = OpenAI(base_url=refusing.url, api_key="k", max_retries=1)
        with smartclient.wrap(client), pytest.raises(openai.InternalServerError):
            client.embeddings.create(model="m", input="text")

        assert refusing.requests == 2


@pytest.mark.parametrize(
    ("make", "connection_error", "family"),
    [
        pytest.param(
            lambda url: OpenAI(base_url=url, api_key="k", max_retries=0),
            openai.APIConnectionError,
            httpx2,
            id="openai",
        ),
        pytest.param(
            lambda url: OpenAI(
                base_url=url, api_key="k", max_retries=0, http_client=httpx.Client()
            ),
            openai.APIConnectionError,
            httpx,
            id="openai-on-httpx",
        ),
        pytest.param(
            lambda url: Anthropic(base_url=url, api_key="k", max_retries=0),
            anthropic.APIConnectionError,
            httpx2,
            id="anthropic",
        ),
    ],
)
def test_a_refused_connection_is_the_sdks_own_error(make, connection_error, family):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with smartclient.wrap(make(url)) as client:
        resource = client.messages if isinstance(client, Anthropic) else client.chat.completions

        with pytest.raises(connection_error) as caught:
            resource.create(**GIVEN)

    cause = caught.value.__cause__
    assert isinstance(cause, family.ConnectError)
    assert isinstance(cause, smartclient.ExchangeError)
    assert pickle.loads(pickle.dumps(cause)).kind == "connect"


def test_wrapping_twice_changes_nothing_and_unwrap_restores_everything(server):
    client = an_openai(server)
    before = (type(client), client._client._transport, dict(client._client._mounts))

    assert smartclient.wrap(client) is client
    transport = client._client._transport
    assert smartclient.wrap(client)._client._transport is transport
    assert isinstance(transport, Transport)
    assert isinstance(client, OpenAI)
    smartclient.unwrap(client)

    assert (type(client), client._client._transport, dict(client._client._mounts)) == before
    client.close()


def test_an_unwrapped_client_still_answers(server, expected):
    with smartclient.unwrap(smartclient.wrap(an_openai(server))) as client:
        assert text_of(client.chat.completions.create(**GIVEN)) == expected


def test_outside_a_call_the_http_client_is_what_it_was(server):
    with smartclient.wrap(an_openai(server)) as client:
        assert client._client.get(f"{server.base_url}/health").status_code == 200
        assert smartclient.last_report(client) is None


def test_one_async_client_serves_several_event_loops(server, expected):
    client = smartclient.wrap(AsyncAnthropic(base_url=server.base_url, api_key=server.api_key))

    async def ask() -> str:
        return text_of(await client.messages.create(**GIVEN))

    assert [asyncio.run(ask()) for _ in range(3)] == [expected] * 3
    assert isinstance(client._client._transport, AsyncTransport)
    asyncio.run(client.close())


def test_another_object_is_refused():
    with pytest.raises(TypeError, match="takes a client of the openai or anthropic SDK, not str"):
        smartclient.wrap("client")
