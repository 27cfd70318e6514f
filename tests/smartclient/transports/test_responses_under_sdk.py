"""OpenAI's SDK, plain and over our transport, and our own clients: Responses of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response

import server_reference
import smartclient
from tests.smartclient.fakes import BLOCKING, RESPONSE, an_event
from tests.smartclient.sdk_clients import Sdk

pytestmark = pytest.mark.sdk

ASKED = "What is the capital of France?"
GIVEN: dict[str, Any] = {
    "model": "tiny",
    "input": ASKED,
    "max_output_tokens": 12,
    "temperature": 0.0,
}
ORDER = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.incomplete",
]


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with server_reference.start(model="tiny", api_keys=["sk-test"], num_blocks=256) as running:
        yield running


@pytest.fixture(scope="module")
def where(server) -> dict[str, str]:
    return {"base_url": f"{server.base_url}/v1", "api_key": server.api_key}


@pytest.fixture(scope="module")
def expected(where) -> str:
    """The answer, as Chat Completions gives it: both are made from one event stream."""
    chat = {"model": "tiny", "messages": [{"role": "user", "content": ASKED}]}
    with smartclient.Client(provider="openai", **where) as client:
        answer = client.chat.completions.create(max_tokens=12, temperature=0.0, **chat)
        return answer.choices[0].message.content


WRAPPED = pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "wrapped"])
ON = pytest.mark.parametrize("on_httpx", [False, True], ids=["own", "httpx"])


def kinds_of(events: list[Any]) -> list[str]:
    """The types of `events`, a run of the same told once."""
    kinds = [event.type for event in events]
    return [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind]


def text_of(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def check(expected: str, whole: Any, events: list[Any]) -> None:
    assert whole.output_text == expected
    assert (whole.status, whole.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert whole.usage.total_tokens == whole.usage.input_tokens + 12
    assert kinds_of(events) == ORDER
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert text_of(events) == events[-1].response.output_text == expected
    assert events[-1].response.usage.output_tokens == 12


@ON
@WRAPPED
def test_the_sync_sdk_gets_the_answer(where, expected, wrapped, on_httpx):
    more = {"http_client": httpx.Client()} if on_httpx else {}
    with OpenAI(**where, **more) as client:
        if wrapped:
            smartclient.wrap(client)
        whole = client.responses.create(**GIVEN)
        with client.responses.create(stream=True, **GIVEN) as stream:
            check(expected, whole, list(stream))


@ON
@WRAPPED
def test_the_async_sdk_gets_the_answer(where, expected, wrapped, on_httpx):
    async def main() -> None:
        more = {"http_client": httpx.AsyncClient()} if on_httpx else {}
        async with AsyncOpenAI(**where, **more) as client:
            if wrapped:
                smartclient.wrap(client)
            whole = await client.responses.create(**GIVEN)
            async with await client.responses.create(stream=True, **GIVEN) as stream:
                check(expected, whole, [event async for event in stream])

    asyncio.run(main())


def test_our_client_gets_the_answer(where, expected):
    with smartclient.Client(provider="openai", **where) as client:
        whole = client.responses.create(**GIVEN)
        with client.responses.create(stream=True, **GIVEN) as stream:
            check(expected, whole, list(stream))


def test_our_async_client_gets_the_answer(where, expected):
    async def main() -> None:
        async with smartclient.AsyncClient(provider="openai", **where) as client:
            whole = await client.responses.create(**GIVEN)
            async with await client.responses.create(stream=True, **GIVEN) as stream:
                check(expected, whole, [event async for event in stream])

    asyncio.run(main())


def test_what_the_server_sends_is_what_the_sdk_has_types_for(where):
    """The SDK itself takes anything; pydantic does not."""
    with OpenAI(**where) as client:
        whole = client.responses.create(**GIVEN)
        with client.responses.create(stream=True, **GIVEN) as stream:
            events = list(stream)

    for value in (whole, *events):
        type(value).model_validate(value.to_dict())
    assert isinstance(events[-1].response, Response)


@WRAPPED
def test_the_stream_helper_of_the_sdk_works(where, expected, wrapped):
    with OpenAI(**where) as client:
        if wrapped:
            smartclient.wrap(client)
        with client.responses.stream(**GIVEN) as stream:
            events = list(stream)

    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert deltas[-1].snapshot == expected


@WRAPPED
def test_output_goes_back_into_the_next_call(where, wrapped):
    """As a conversation without a stored response: what it said is part of the next prompt."""
    with OpenAI(**where) as client:
        if wrapped:
            smartclient.wrap(client)
        first = client.responses.create(**GIVEN)
        turns = [{"role": "user", "content": ASKED}, *first.output]
        second = client.responses.create(**GIVEN | {"input": turns})

    assert second.usage.input_tokens > first.usage.input_tokens + 12


def test_output_of_our_client_goes_back_into_the_next_call(where):
    with smartclient.Client(provider="openai", **where) as client:
        with client.responses.create(stream=True, **GIVEN) as stream:
            first = list(stream)[-1].response
        turns = [{"role": "user", "content": ASKED}, *first.output]
        second = client.responses.create(**GIVEN | {"input": turns, "instructions": "Go on."})

    assert second.usage.input_tokens > first.usage.input_tokens + 12
    assert second.instructions == "Go on."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_wrapped_call_is_reported(where, stream):
    with smartclient.wrap(OpenAI(**where)) as client:
        answer = client.responses.create(stream=stream, **GIVEN)
        if stream:
            list(answer)
        report = smartclient.last_report(client)

    assert (report.provider, report.endpoint) == ("openai", "POST /v1/responses")
    assert (report.status, report.error, report.finish) == (200, None, "max_output_tokens")
    assert (report.usage.output, report.usage.reasoning) == (12, 0)
    assert {"gateway", "tokenize", "prefill", "decode"} <= set(report.stages)
    assert (report.ttft is not None) is stream


def test_a_prefix_read_from_the_cache_is_told(where):
    given = GIVEN | {"input": "A prompt of some length that no other test of this file sends."}
    with smartclient.wrap(OpenAI(**where)) as client:
        client.responses.create(**given)
        answer = client.responses.create(**given)
        usage = smartclient.last_report(client).usage

    assert usage.cache_read == answer.usage.input_tokens_details.cached_tokens > 0
    assert usage.input_tokens == answer.usage.input_tokens


def test_ten_streams_use_one_connection(where):
    """openai-python#3440: the SDK closes a stream before the transfer's end."""
    reused: list[bool | None] = []
    with smartclient.wrap(OpenAI(**where), on_report=lambda r: reused.append(r.reused)) as client:
        for _ in range(10):
            with client.responses.create(stream=True, **GIVEN) as stream:
                list(stream)

    assert reused[1:] == [True] * 9


@WRAPPED
@pytest.mark.parametrize(
    ("more", "param"),
    [
        pytest.param({"tools": [{"type": "web_search"}]}, "tools[0].type", id="tools"),
        pytest.param({"previous_response_id": "resp_1"}, "previous_response_id", id="previous"),
        pytest.param({"model": "other"}, "model", id="model"),
        pytest.param({"input": "x" * 9000}, "input", id="beyond-the-context"),
    ],
)
def test_a_refusal_is_the_sdks_own_error_and_names_the_field(where, wrapped, more, param):
    with OpenAI(**where) as client:
        if wrapped:
            smartclient.wrap(client)
        with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as refused:
            client.responses.create(**GIVEN | more)

    assert refused.value.param == param


CREATED = an_event("response.created", response=RESPONSE | {"status": "in_progress", "output": []})
PIECE = an_event("response.output_text.delta", output_index=0, content_index=0, delta="Par")


@pytest.mark.parametrize("is_cut", [False, True], ids=["whole", "cut"])
def test_only_a_stream_with_its_terminal_event_is_whole_under_the_sdk(is_cut):
    """Unwrapped, the SDK takes half an answer for all of it."""
    end = b"" if is_cut else an_event("response.completed", response=RESPONSE)
    answer = (200, CREATED + PIECE + end, {"content-type": "text/event-stream"})
    plain, _ = Sdk(openai.OpenAI, httpx2, BLOCKING).client(answer, max_retries=0)
    client, _ = Sdk(openai.OpenAI, httpx2, BLOCKING).client(answer, max_retries=0)
    smartclient.wrap(client)

    assert text_of(list(plain.responses.create(stream=True, **GIVEN))) == "Par"
    if is_cut:
        with pytest.raises(openai.APIConnectionError):
            list(client.responses.create(stream=True, **GIVEN))
    else:
        assert text_of(list(client.responses.create(stream=True, **GIVEN))) == "Par"
