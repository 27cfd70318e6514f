"""Our own clients, from the call to the typed answer."""

from __future__ import annotations

import gc
import inspect
import json
import subprocess
import sys

import pytest

from smartclient import AsyncClient, Client, last_report
from smartclient import client as module
from smartclient._errors import (
    ExchangeError,
    InvalidRequestError,
    MalformedReplyError,
    OverloadedError,
)
from smartclient.testing import ManualClock
from tests.smartclient.fakes import (
    CHAT,
    DONE,
    MESSAGE,
    OVERLOAD,
    START,
    STOP,
    TRIO,
    Answer,
    a_chunk,
    a_stream,
    text,
)

ASKED = [{"role": "user", "content": "What is the capital of France?"}]
GIVEN = {"model": "tiny", "max_tokens": 8, "messages": ASKED}
CHAT_GIVEN = {"model": "tiny", "messages": ASKED}
ANSWER = [START, text("Pa"), text("ris"), STOP]
BUSY = b'{"error": {"type": "overloaded_error", "message": "busy"}}'


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def an_anthropic(home, *answers, **options):
    return home.client(*answers, base_url="http://127.0.0.1:1", **options)


def an_openai(home, *answers, **options):
    options = {"provider": "openai", "base_url": "http://127.0.0.1:1/v1"} | options
    return home.client(*answers, **options)


@pytest.mark.parametrize(
    ("blocking", "awaited"),
    [
        pytest.param(Client, AsyncClient, id="client"),
        pytest.param(module.Messages, module.AsyncMessages, id="messages"),
        pytest.param(module.Chat, module.AsyncChat, id="chat"),
        pytest.param(module.ChatCompletions, module.AsyncChatCompletions, id="completions"),
    ],
)
def test_both_clients_have_the_same_methods(blocking, awaited):
    def methods(kind):
        own = {name: part for name, part in vars(kind).items() if inspect.isfunction(part)}
        return {
            name.replace("__a", "__", 1): list(inspect.signature(part).parameters)
            for name, part in own.items()
            if name != "aclose"
        }

    assert methods(blocking) == methods(awaited)


def test_a_message_is_answered(home):
    client, provider = an_anthropic(home, Answer(MESSAGE))

    message = home.do(client.messages.create(**GIVEN))

    assert message.content[0].text == "Paris"
    assert json.loads(provider.calls[0].body) == GIVEN
    assert provider.calls[0].target == "/v1/messages"


def test_a_chat_is_answered(home):
    client, provider = an_openai(home, Answer(CHAT))

    completion = home.do(client.chat.completions.create(**CHAT_GIVEN))

    assert completion.choices[0].message.content == "Paris"
    assert provider.calls[0].target == "/v1/chat/completions"


def test_an_answer_goes_back_byte_for_byte(home):
    """A provider caches a conversation by its bytes."""
    client, provider = an_anthropic(home, Answer(MESSAGE), Answer(MESSAGE))

    first = home.do(client.messages.create(**GIVEN))
    turns = [*ASKED, {"role": "assistant", "content": first.content}]
    home.do(client.messages.create(**GIVEN | {"messages": turns}))

    assert first.content[0].raw in provider.calls[1].body


def test_events_of_a_message_stream_in(home):
    client, provider = an_anthropic(home, a_stream(*ANSWER))

    events = home.all(home.do(client.messages.create(stream=True, **GIVEN)))

    assert events[-1].type == "message_stop"
    assert json.loads(provider.calls[0].body)["stream"] is True


def test_chunks_of_a_chat_stream_in(home):
    client, _ = an_openai(home, a_stream(a_chunk("Paris"), DONE))

    chunks = home.all(home.do(client.chat.completions.create(stream=True, **CHAT_GIVEN)))

    assert chunks[0].choices[0].delta.content == "Paris"


def test_a_message_stream_is_sent_when_it_is_entered(home):
    client, provider = an_anthropic(home, a_stream(*ANSWER))

    stream = client.messages.stream(**GIVEN)
    assert provider.calls == []
    home.enter(stream)

    assert home.do(stream.get_final_text()) == "Paris"
    assert stream.report is client.last_report


def test_tokens_are_counted(home):
    client, provider = an_anthropic(home, Answer(b'{"input_tokens": 12}'))

    counted = home.do(client.messages.count_tokens(model="tiny", messages=ASKED))

    assert counted.input_tokens == 12
    assert provider.calls[0].target == "/v1/messages/count_tokens"
    assert client.last_report.endpoint == "POST /v1/messages/count_tokens"


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        pytest.param(lambda c: c.messages.create(model="tiny"), "max_tokens and messages", id="a"),
        pytest.param(lambda c: c.messages.create(stream=True), "model and max_tokens", id="stream"),
        pytest.param(lambda c: c.messages.count_tokens(model="tiny"), "messages", id="count"),
    ],
)
def test_a_missing_parameter_is_named_before_anything_is_sent(home, call, missing):
    client, provider = an_anthropic(home)

    with pytest.raises(TypeError, match=missing):
        home.do(call(client))

    assert provider.calls == []


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda c: c.messages.create(**GIVEN), id="create"),
        pytest.param(lambda c: c.messages.create(stream=True, **GIVEN), id="stream"),
        pytest.param(lambda c: c.messages.count_tokens(model="tiny", messages=[]), id="count"),
    ],
)
def test_messages_are_not_openais(home, call):
    client, _ = an_openai(home)

    with pytest.raises(TypeError, match="provider='anthropic'"):
        home.do(call(client))


def test_chat_is_not_anthropics(home):
    client, _ = an_anthropic(home)

    with pytest.raises(TypeError, match="provider='openai'"):
        home.do(client.chat.completions.create(**CHAT_GIVEN))


# Failures.


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_error_reply_is_raised_and_its_connection_given_back(home, stream):
    client, provider = an_anthropic(home, Answer(BUSY, status=529))

    with pytest.raises(OverloadedError, match="busy"):
        home.do(client.messages.create(stream=stream, **GIVEN))

    assert len(provider.responses[0].closed) == 1
    assert (client.last_report.status, client.last_report.error) == (529, "overloaded_error")


def test_a_very_long_error_body_is_read_within_a_bound(home):
    page = b"<title>Bad gateway</title>" + b"x" * 200_000
    client, provider = an_anthropic(home, Answer(page[:70_000], page[70_000:], status=502))

    with pytest.raises(Exception, match=r"502.*Bad gateway"):
        home.do(client.messages.create(**GIVEN))

    assert provider.responses[0].num_reads == 1


def test_a_redirect_is_an_error_that_names_the_place(home):
    client, provider = an_anthropic(home, Answer(status=308, location="http://b/"))

    with pytest.raises(Exception, match="redirects to http://b/"):
        home.do(client.messages.create(**GIVEN))

    assert len(provider.responses[0].closed) == 1


def test_a_page_in_the_place_of_json_is_malformed(home):
    client, _ = an_anthropic(home, Answer(b"<html>", content_type="text/html"))

    with pytest.raises(MalformedReplyError, match="text/html") as caught:
        home.do(client.messages.create(**GIVEN))

    assert caught.value.excerpt == b"<html>"
    assert client.last_report.error == "malformed"


@pytest.mark.parametrize(
    ("make", "ask"),
    [
        pytest.param(an_anthropic, lambda c: c.messages.create(**GIVEN), id="anthropic"),
        pytest.param(an_openai, lambda c: c.chat.completions.create(**CHAT_GIVEN), id="openai"),
    ],
)
def test_an_error_that_came_with_status_200_is_raised(home, make, ask):
    """Some proxies do that; the fields of a message would all be None."""
    client, _ = make(home, Answer(BUSY))

    with pytest.raises(OverloadedError, match="answered 200 overloaded_error: busy"):
        home.do(ask(client))

    assert client.last_report.error == "overloaded_error"


def test_json_in_the_place_of_a_stream_is_malformed(home):
    client, provider = an_anthropic(home, Answer(MESSAGE))

    with pytest.raises(MalformedReplyError, match="a stream was asked for") as caught:
        home.do(client.messages.create(stream=True, **GIVEN))

    assert caught.value.excerpt == MESSAGE[:200]
    assert provider.responses[0].closed == [False]
    assert client.last_report.error == "malformed"


def test_an_error_in_the_place_of_a_stream_is_raised_as_such(home):
    client, _ = an_anthropic(home, Answer(BUSY))

    with pytest.raises(OverloadedError, match="answered 200 overloaded_error: busy"):
        home.do(client.messages.create(stream=True, **GIVEN))

    assert client.last_report.error == "overloaded_error"


def test_a_connection_that_fails_is_an_exchange_error(home):
    error = ExchangeError("refused", kind="connect")
    client, _ = an_anthropic(home, error)

    with pytest.raises(ExchangeError) as caught:
        home.do(client.messages.create(**GIVEN))

    assert caught.value is error
    assert client.last_report.error == "connect"


# Retries.


def test_a_call_is_sent_again_while_the_provider_is_busy(home):
    busy = Answer(BUSY, status=529, retry_after="3")
    clock = ManualClock(0.0)
    client, provider = an_anthropic(
        home, busy, Answer(MESSAGE), clock=clock, max_retries=1, wait_jitter=0.0
    )

    message = home.do(client.messages.create(**GIVEN))

    assert message.content[0].text == "Paris"
    assert clock.slept == [3.0]
    assert [one.status for one in client.last_report.attempts] == [529, 200]
    assert provider.responses[0].closed == [False]


def test_an_error_in_a_stream_before_its_content_is_never_seen(home):
    client, _ = an_anthropic(
        home, a_stream(START + OVERLOAD), a_stream(*ANSWER), max_retries=1, wait=lambda state: 0.0
    )

    events = home.all(home.do(client.messages.create(stream=True, **GIVEN)))

    assert [event.type for event in events].count("message_start") == 1
    assert len(client.last_report.attempts) == 2


def test_after_content_nothing_is_sent_again(home):
    client, provider = an_anthropic(home, a_stream(START, text("Pa"), OVERLOAD), max_retries=3)
    stream = home.do(client.messages.create(stream=True, **GIVEN))

    with pytest.raises(OverloadedError) as caught:
        home.all(stream)

    assert len(provider.calls) == 1
    assert caught.value.partial.content[0].text == "Pa"


def test_a_calls_own_limit_comes_before_the_clients(home):
    client, provider = an_anthropic(home, Answer(BUSY, status=529), max_retries=3)

    with pytest.raises(OverloadedError):
        home.do(client.messages.create(max_retries=0, **GIVEN))

    assert len(provider.calls) == 1


def test_the_error_says_how_often_it_was_tried(home):
    client, _ = an_anthropic(
        home, *[Answer(BUSY, status=529)] * 3, max_retries=2, wait=lambda state: 0.0
    )

    with pytest.raises(OverloadedError, match="after 3 attempts") as caught:
        home.do(client.messages.create(**GIVEN))

    assert caught.value.attempts == 3


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


def test_a_dropped_stream_is_reported_by_the_next_call(home):
    seen = []
    client, provider = an_anthropic(home, a_stream(*ANSWER), Answer(MESSAGE), on_report=seen.append)
    gc.disable()
    stream = home.do(client.messages.create(stream=True, **GIVEN))
    home.first(stream)

    del stream
    gc.enable()
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


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, smartclient; print([m for m in sys.argv[1:] if m in sys.modules])"
    heavy = "asyncio httpx httpx2 h2 pydantic tiktoken tenacity rich torch ssl".split()

    done = subprocess.run(
        [sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_a_bad_request_is_not_tried_again(home):
    body = b'{"error": {"type": "invalid_request_error", "message": "messages: too short"}}'
    client, provider = an_anthropic(home, Answer(body, status=400), max_retries=3)

    with pytest.raises(InvalidRequestError, match="too short"):
        home.do(client.messages.create(**GIVEN))

    assert len(provider.calls) == 1
