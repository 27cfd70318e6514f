"""Mocks, cassettes, instrumentors and aiohttp below our policies, and ours once they are gone."""

from __future__ import annotations

import importlib.util

import httpx
import pytest

import server_reference
import smartclient
from server_reference.scripted import ErrorAnswer, fault
from tests.sdk_matrix.sides import SIDES, items

# Under CI no test of an SDK may be skipped, and these need more than the SDKs.
respx, vcr, otel, pytest_httpx, aiohttp = (
    importlib.util.find_spec(name)
    for name in ("respx", "vcr", "opentelemetry.instrumentation", "pytest_httpx", "aiohttp")
)
BUSY = {"error": {"type": "overloaded_error", "message": "busy"}}
CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 0,
    "model": "tiny",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Paris"},
        }
    ],
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "tiny",
    "content": [{"type": "text", "text": "Paris"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
# These tools know httpx, which newer SDKs take where they take it at all.
ON_HTTPX = pytest.mark.parametrize(
    "side",
    [
        pytest.param(side, id=side.name)
        for side in SIDES
        if side.family is httpx or not side.is_anthropic
    ],
)
WHEN = pytest.mark.parametrize("wrapped", ["before", "inside"])


def needs(spec):
    return pytest.mark.skipif(spec is None, reason="it is not installed")


def at_once(state):
    """A tenacity `wait`: no test waits."""
    return 0.0


def a_client(side, server):
    http = httpx.AsyncClient() if side.is_async else httpx.Client()
    return side.client(server, http_client=http)


def body_of(side):
    return MESSAGE if side.is_anthropic else CHAT


async def check_that_ours_carry(side, client, server):
    """The server is asked, and reports tell of a connection of ours."""
    before = len(server.journal)
    await side.ask(client)
    assert len(server.journal) == before + 1
    assert smartclient.last_report(client).protocol is not None
    await side.close(client)


@ON_HTTPX
@WHEN
@needs(respx)
async def test_respx_answers_each_attempt(side, wrapped):
    import respx

    with server_reference.scripted("from the server") as server:
        client = a_client(side, server)
        if wrapped == "before":
            smartclient.wrap(client, wait=at_once)
        with respx.mock() as router:
            route = router.post(url__startswith=server.base_url)
            route.side_effect = [
                httpx.Response(503, json=BUSY),
                httpx.Response(200, json=body_of(side)),
            ]
            if wrapped == "inside":
                smartclient.wrap(client, wait=at_once)
            answer = await side.ask(client)
        assert (side.text(answer), route.call_count, len(server.journal)) == ("Paris", 2, 0)
        assert [one.status for one in smartclient.last_report(client).attempts] == [503, 200]
        await check_that_ours_carry(side, client, server)


@ON_HTTPX
@needs(pytest_httpx)
async def test_pytest_httpx_answers_each_attempt(side, request):
    mock = request.getfixturevalue("httpx_mock")
    mock.add_response(status_code=503, json=BUSY)
    mock.add_response(json=body_of(side))
    with server_reference.scripted("from the server") as server:
        client = smartclient.wrap(a_client(side, server), wait=at_once)
        answer = await side.ask(client)
        await side.close(client)
        assert len(server.journal) == 0

    assert side.text(answer) == "Paris"
    assert len(mock.get_requests()) == 2
    assert len(smartclient.last_report(client).attempts) == 2


@ON_HTTPX
@WHEN
@needs(vcr)
async def test_a_cassette_is_recorded_and_played(side, wrapped, tmp_path):
    import vcr

    cassette = vcr.VCR(record_mode="once").use_cassette
    with server_reference.scripted([ErrorAnswer(503), "Paris"]) as server:
        client = a_client(side, server)
        if wrapped == "before":
            smartclient.wrap(client, wait=at_once)
        with cassette(str(tmp_path / "calls.yaml")):
            smartclient.wrap(client, wait=at_once) if wrapped == "inside" else None
            recorded = await side.ask(client)
        with cassette(str(tmp_path / "calls.yaml")) as played:
            again = await side.ask(client)
            assert played.play_count >= 1
        assert len(server.journal) == 2
        await side.close(client)

    assert side.text(recorded) == side.text(again) == "Paris"


@ON_HTTPX
@needs(otel)
@pytest.mark.parametrize("whole", [True, False], ids=["every-client", "one-client"])
async def test_an_instrumentor_sees_each_request(side, whole):
    from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, instrumentor = InMemorySpanExporter(), HTTPXClientInstrumentor()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with server_reference.scripted([ErrorAnswer(503), "Paris", "Paris"]) as server:
        client = smartclient.wrap(a_client(side, server), wait=at_once)
        inner = client._client._transport.inner
        if whole:
            instrumentor.instrument(tracer_provider=provider)
        else:
            instrumentor.instrument_client(client._client, tracer_provider=provider)
        answer = await side.ask(client)
        instrumentor.uninstrument() if whole else instrumentor.uninstrument_client(client._client)
        spans = len(exporter.get_finished_spans())
        assert client._client._transport.inner is inner
        await check_that_ours_carry(side, client, server)

    assert side.text(answer) == "Paris"
    assert spans == (2 if whole else 1)  # above our policies a call is one request
    assert len(exporter.get_finished_spans()) == spans


@pytest.mark.parametrize("side", [pytest.param(s, id=s.name) for s in SIDES if s.is_async])
@needs(aiohttp)
async def test_an_aiohttp_client_stays_below_our_policies(side):
    with server_reference.scripted(
        [ErrorAnswer(503), fault("no_reply"), "Paris", "Paris"]
    ) as server:
        http = side.package.DefaultAioHttpClient()
        client = smartclient.wrap(side.client(server, http_client=http), wait=at_once)
        answer = await side.ask(client)
        report = smartclient.last_report(client)
        events = await items(await side.ask(client, stream=True))
        await side.close(client)

    assert side.text(answer) == "Paris"
    assert "Paris" in str(events)
    assert (len(report.attempts), report.protocol) == (3, None)
