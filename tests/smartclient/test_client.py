"""Our own clients, from the call to the typed answer and its report."""

from __future__ import annotations

import inspect

import pytest

from smartclient import AsyncClient, Client, last_report
from tests.smartclient.clients import ANSWER, GIVEN, an_anthropic
from tests.smartclient.fakes import MESSAGE, TRIO, Answer, a_stream


def test_both_clients_have_the_same_methods():
    def methods(kind):
        own = {name: part for name, part in vars(kind).items() if inspect.isfunction(part)}
        return {
            name.replace("__a", "__", 1): list(inspect.signature(part).parameters)
            for name, part in own.items()
            if name != "aclose"
        }

    assert methods(Client) == methods(AsyncClient)


# Reports.


def test_each_call_is_reported(home):
    seen = []
    client, _ = an_anthropic(home, Answer(MESSAGE, request_id="req_1"), on_report=seen.append)

    assert last_report(client) is None
    home.do(client.messages.create(**GIVEN))

    report = last_report(client)
    assert seen == [report]
    assert (report.status, report.usage.output, report.request_id) == (200, 2, "req_1")
    assert report.finish == "end_turn"


def test_a_stream_is_reported_when_it_has_ended(home):
    client, _ = an_anthropic(home, a_stream(*ANSWER))

    stream = home.do(client.messages.create(stream=True, **GIVEN))
    home.first(stream)
    assert client.last_report is None
    home.all(stream)

    assert stream.report is client.last_report
    assert (stream.report.usage.output, stream.report.error) == (2, None)


def test_a_stream_that_was_left_is_reported_as_cut(home):
    client, _ = an_anthropic(home, a_stream(*ANSWER))

    stream = home.do(client.messages.create(stream=True, **GIVEN))
    home.first(stream)
    home.do(stream.close())

    assert client.last_report.error == "cut"


@pytest.mark.usefixtures("no_collector")
def test_a_dropped_stream_is_reported_by_the_next_call(home):
    seen = []
    client, provider = an_anthropic(home, a_stream(*ANSWER), Answer(MESSAGE), on_report=seen.append)
    stream = home.do(client.messages.create(stream=True, **GIVEN))
    home.first(stream)

    del stream
    assert (provider.responses[0].num_cuts, seen) == (1, [])
    home.do(client.messages.create(**GIVEN))

    assert [report.error for report in seen] == ["cut", None]


def test_a_dropped_stream_is_reported_at_the_close(home):
    client, provider = an_anthropic(home, a_stream(*ANSWER))

    home.first(home.do(client.messages.create(stream=True, **GIVEN)))
    home.do(client.close())

    assert client.last_report.error == "cut"
    assert provider.is_closed


def test_an_observer_that_raises_does_not_break_the_call(home, caplog):
    def observer(report):
        raise RuntimeError("disk full")

    client, _ = an_anthropic(home, Answer(MESSAGE), on_report=observer)

    assert home.do(client.messages.create(**GIVEN)).id == "msg_1"
    assert "disk full" in caplog.text


def test_what_is_not_a_client_has_no_reports():
    with pytest.raises(TypeError, match="neither our client nor wrapped"):
        last_report(object())


# Lifetime.


def test_leaving_the_context_closes_the_client(home):
    client, provider = an_anthropic(home)

    assert home.enter(client) is client
    home.exit(client)

    assert provider.is_closed


def test_a_client_can_be_closed_twice(home):
    kind = AsyncClient if home.is_async else Client
    client = kind(base_url="http://127.0.0.1:1")

    home.do(client.close())
    home.do(client.close())


def test_under_trio_the_async_client_says_what_else_there_is():
    client, _ = an_anthropic(TRIO)

    with pytest.raises(RuntimeError, match=r"runs on asyncio, and this is trio; use Client"):
        TRIO.do(client.messages.create(**GIVEN))


def test_under_trio_leaving_the_async_client_hides_nothing():
    async def ask():
        async with AsyncClient(base_url="http://127.0.0.1:1") as client:
            await client.messages.create(**GIVEN)

    with pytest.raises(RuntimeError, match="this is trio"):
        TRIO.do(ask())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        pytest.param({"provider": "mistral"}, ValueError, "'anthropic' or 'openai'", id="provider"),
        pytest.param({}, ValueError, "no API key", id="no-key"),
        pytest.param({"api_key": "k", "retries": 3}, TypeError, "max_retries", id="setting"),
        pytest.param({"api_key": "k", "base_url": "a:1"}, ValueError, "begin with http", id="url"),
        pytest.param({"api_key": "k", "max_wait": -1.0}, ValueError, "at least 0 s", id="range"),
    ],
)
def test_what_cannot_be_is_refused_when_the_client_is_made(kind, options, error, message):
    with pytest.raises(error, match=message):
        kind(**options)
