"""How the public names look to a type checker: read by mypy in `scripts/check`, never run."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import assert_type

import anthropic
import httpx
import httpx2
import openai

import server_reference
import smartclient
from server_reference.scripted import ManualClock
from server_reference.scripted.config import ScriptedConfig
from smartclient import AsyncClient, CallReport, Client, Settings, Timeout, testing
from smartclient.budgets import BudgetState, Downgrade
from smartclient.catalog import Catalog, Cost, ModelFacts
from smartclient.ledger import Entry, Ledger, Total
from smartclient.policies.retry import retry_after
from smartclient.report import Stage
from smartclient.stores import RedisStore, SQLiteStore, Store
from smartclient.tokens import BoilerplateReport, Calibrator, Fitted, TokenCount
from smartclient.wire.anthropic_types import Message, MessageTokensCount
from smartclient.wire.openai_responses_types import InputTokensCount, Response, ResponseStreamEvent
from smartclient.wire.openai_types import ChatCompletion, ChatCompletionChunk
from smartclient.wire.sse import Event, SSEDecoder

MESSAGES = [{"role": "user", "content": "Hello"}]


def sync_client() -> None:
    with Client(provider="anthropic", base_url="http://127.0.0.1:1", api_key="k") as client:
        message = client.messages.create(model="m", max_tokens=1, messages=MESSAGES)
        assert_type(message, Message)
        count = client.messages.count_tokens(model="m", messages=MESSAGES)
        assert_type(count, MessageTokensCount)
        for _event in client.messages.create(
            model="m", max_tokens=1, messages=MESSAGES, stream=True, timeout=3.0
        ):
            pass
        with client.messages.stream(model="m", max_tokens=1, messages=MESSAGES) as stream:
            for text in stream.text_stream:
                assert_type(text, str)
            assert_type(stream.get_final_message(), Message)
            assert_type(stream.current_message, Message | None)


def stores() -> list[Store]:
    return [SQLiteStore("budgets.db", timeout=1.0), RedisStore("redis://host", prefix="app")]


def chat_client() -> None:
    client = Client(provider="openai", settings=Settings(timeout=Timeout(read=5.0)), max_retries=1)
    answer = client.chat.completions.create(
        model="m", messages=MESSAGES, extra_headers={"x-a": "b"}, timeout=None
    )
    assert_type(answer, ChatCompletion)
    for chunk in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
        assert_type(chunk, ChatCompletionChunk)
    with client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
        for chunk in stream:
            assert_type(chunk, ChatCompletionChunk)
        assert_type(stream.get_final_completion(), ChatCompletion)


def response_client(client: Client) -> None:
    response = client.responses.create(model="m", input="Hello", instructions="Be brief.")
    assert_type(response, Response)
    assert_type(response.output_text, str)
    client.responses.create(model="m", input=[*response.output, *MESSAGES], max_output_tokens=9)
    for event in client.responses.create(model="m", input=MESSAGES, stream=True):
        assert_type(event, ResponseStreamEvent)
    with client.responses.stream(model="m", input="Hello") as stream:
        for event in stream.until_done():
            assert_type(event, ResponseStreamEvent)
        assert_type(stream.get_final_response(), Response)


def counting(client: Client) -> None:
    counted = smartclient.tokens.count({"messages": MESSAGES}, model="gpt-4o")
    assert_type(counted, TokenCount)
    assert_type(counted.p95, int)
    Calibrator().observe(counted, 9, provider="openai", model="gpt-4o")
    exact = client.responses.input_tokens.count(model="m", input="Hello", instructions="Be brief.")
    assert_type(exact, InputTokensCount)
    client.responses.input_tokens.count(input="Hello")  # type: ignore[call-arg]
    request = {"model": "gpt-4o", "messages": MESSAGES}
    assert_type(smartclient.tokens.fit(MESSAGES, "gpt-4o", reserve=100), Fitted)
    assert_type(smartclient.tokens.fit(request, reserve=100, summarise=str, memory={}), Fitted)
    assert_type(smartclient.tokens.boilerplate([request, (0.0, request)]), BoilerplateReport)


async def async_client() -> None:
    async with AsyncClient() as client:
        message = await client.messages.create(model="m", max_tokens=1, messages=MESSAGES)
        assert_type(message, Message)
        async with client.messages.stream(model="m", max_tokens=1, messages=MESSAGES) as stream:
            async for text in stream.text_stream:
                assert_type(text, str)
        async with client.responses.stream(model="m", input="Hello") as responding:
            assert_type(await responding.get_final_response(), Response)
            assert_type(await responding.get_final_text(), str)


def wrapped_clients_keep_their_types() -> None:
    assert_type(smartclient.wrap(anthropic.Anthropic()), anthropic.Anthropic)
    wrapped = smartclient.wrap(openai.AsyncOpenAI(), max_retries=2)
    assert_type(wrapped, openai.AsyncOpenAI)
    assert_type(smartclient.unwrap(wrapped), openai.AsyncOpenAI)


def http_clients_are_the_familys() -> None:
    assert_type(smartclient.httpx_client(max_retries=1), httpx.Client)
    assert_type(smartclient.async_httpx_client(Settings()), httpx.AsyncClient)
    made = smartclient.httpx2_client(base_url="http://127.0.0.1:1")
    assert_type(made, httpx2.Client)
    assert_type(smartclient.async_httpx2_client(), httpx2.AsyncClient)
    openai.OpenAI(http_client=made)


def reports(client: Client) -> None:
    report = smartclient.last_report(client)
    assert_type(report, CallReport | None)
    if report is not None:
        assert_type(report.stages, dict[str, Stage])
        assert_type(report.ttft, float | None)
        assert_type(report.cost, float | None)
        assert_type(report.exact_cost, Decimal | None)
        assert_type(report.attempts[0].priced, Cost | None)
    Settings(catalog={"m": {"prices": {"input": 1, "output": 2}}})
    Settings(catalog="prices.json", calibrator=Calibrator())


def parts() -> None:
    assert_type(SSEDecoder().feed(b""), list[Event])
    assert_type(retry_after({"retry-after": "1"}, now=0.0), float | None)


def server() -> None:
    with server_reference.start("tiny", api_keys=["k"]) as running:
        assert_type(running.base_url, str)
        running.stop()


def one_clock_for_both_ends() -> None:
    Settings(clock=ManualClock(auto_advance=True))
    ScriptedConfig(clock=testing.ManualClock())


def mistakes(client: Client) -> None:
    client.messages.create(model="m", messages=MESSAGES)  # type: ignore[call-overload]
    client.responses.create(model="m")  # type: ignore[call-overload]
    client.messages.count_tokens(model=1, messages=MESSAGES)  # type: ignore[arg-type]
    Client(provider="other")  # type: ignore[arg-type]


def catalog(report: CallReport) -> None:
    facts = smartclient.catalog.model("gpt-4.1")
    assert_type(facts, ModelFacts | None)
    assert_type(smartclient.catalog.cost(report.usage, facts, batch=True), Cost | None)
    mine = smartclient.catalog.override({"m": {"prices": {"input": 1, "output": 2}}})
    assert_type(mine.read("prices.json"), Catalog)


def budgets(client: Client) -> None:
    app = smartclient.Budget(name="app", dollars="20", per="day", on_limit="wait", max_wait=5.0)
    run = smartclient.Budget(tokens=500, on_limit=Downgrade(max_tokens=10, model="m"))
    with smartclient.scope(tag="ann", budget=run, deadline=3.0):
        client.messages.create(model="m", max_tokens=1, messages=MESSAGES)
    assert_type(app.state("ann"), BudgetState)
    assert_type(app.left(), Mapping[str, float])
    assert_type(Settings(budgets=[app]), Settings)


def ledger() -> None:
    with Ledger("calls.jsonl", size=10) as kept, Client(ledger=kept):
        assert_type(kept.total(), Total)
        assert_type(kept.totals("tag"), dict[str | None, Total])
        assert_type(list(kept), list[Entry])
    assert_type(smartclient.Ledger.read("calls.jsonl"), Ledger)
