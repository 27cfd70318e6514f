"""Our pipeline under the clients of both families."""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager
from unittest.mock import AsyncMock, Mock

import httpx
import httpx2
import pytest

from smartclient._call import Origin, Timeout
from smartclient._errors import ExchangeError
from smartclient._pipeline import Pipeline
from smartclient._settings import Settings
from smartclient.testing import ManualClock
from smartclient.transports.httpx import (
    AsyncTransport,
    CallContext,
    Transport,
    call_context,
    family_of,
)
from tests.smartclient.fakes import (
    BLOCKING,
    MESSAGE,
    OVERLOAD,
    START,
    STOP,
    TRIO,
    Answer,
    a_stream,
    text,
)

URL = "http://a.example:81/v1/messages?beta=true"
ASKED = {"model": "tiny", "messages": []}
BUSY = Answer(b'{"error": {"type": "overloaded_error"}}', status=529)


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def family(request):
    return request.param


class Below:
    """The transport that was there before; it answers 299."""

    def __init__(self, family) -> None:
        self._family, self.requests = family, []
        self.num_entered = self.num_closed = 0

    def handle_request(self, request):
        self.requests.append(request)
        return self._family.Response(299, content=b"from below")

    async def handle_async_request(self, request):
        return self.handle_request(request)

    def close(self):
        self.num_closed += 1

    async def aclose(self):
        self.num_closed += 1

    def __enter__(self):
        self.num_entered += 1

    async def __aenter__(self):
        self.num_entered += 1


@contextmanager
def in_a_call(client, *, max_retries: int = 0, started: float = 0.0):
    """What a wrapped client opens around each call of its own."""
    pipeline = client._transport.pipeline
    token = call_context.set(CallContext(pipeline, max_retries, started))
    try:
        yield
    finally:
        call_context.reset(token)


def upgraded(world, family, *answers, below=None, **options):
    """A client of `family` over our transport, which is over a provider."""
    provider = world.provider(*answers)
    pipeline = Pipeline(Settings(clock=ManualClock(0.0), wait=lambda state: 0.0, **options))
    kind = AsyncTransport if world.is_async else Transport
    transport = kind(family, below or Below(family), pipeline, provider if answers else None)
    client = (family.AsyncClient if world.is_async else family.Client)(transport=transport)
    return client, transport, provider


def posted(world, client, url=URL, **more):
    more = more or {"json": ASKED}
    return world.do(client.post(url, **more))


def streamed(world, client):
    """A reply whose body is still unread."""
    return world.do(client.send(client.build_request("POST", URL, json=ASKED), stream=True))


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_the_family_of_a_client_is_its_module(family, kind):
    client = type("Derived", (getattr(family, kind),), {})()

    assert family_of(client) is family


@pytest.mark.parametrize("other", [None, object(), "httpx"])
def test_what_is_no_client_has_no_family(other):
    assert family_of(other) is None


def test_outside_a_call_nothing_changes(world, family):
    below = Below(family)
    client, _, provider = upgraded(world, family, Answer(), below=below)

    response = posted(world, client)

    assert (response.status_code, response.content) == (299, b"from below")
    assert (len(below.requests), provider.calls) == (1, [])


def test_inside_a_call_our_connections_carry_it(home, family):
    client, _, provider = upgraded(home, family, Answer(MESSAGE, status=203, x_a="b"))

    with in_a_call(client, max_retries=2):
        response = posted(home, client)

    assert (response.status_code, response.json()["id"]) == (203, "msg_1")
    assert (response.reason_phrase, response.http_version) == ("As You Like", "HTTP/1.1")
    assert response.headers["x-a"] == "b"
    assert provider.calls[0].max_retries == 2


def test_the_call_is_what_the_request_says(home, family):
    client, _, provider = upgraded(home, family, Answer())

    with in_a_call(client):
        limits = family.Timeout(1.0, connect=2.0, read=None)
        posted(home, client, json=ASKED, headers={"X-Key": "k"}, timeout=limits)

    call = provider.calls[0]
    assert (call.method, call.origin) == ("POST", Origin("http", "a.example", 81))
    assert (call.target, call.payload) == ("/v1/messages?beta=true", ASKED)
    assert json.loads(call.body) == ASKED
    assert call.adapter.provider == "anthropic"
    assert call.timeout == Timeout(connect=2.0, pool=1.0, write=1.0, read=None)


def test_headers_pass_in_their_order_but_for_the_connections_own(home, family):
    client, _, provider = upgraded(home, family, Answer())

    with in_a_call(client):
        posted(home, client, json=ASKED, headers=[("X-Key", "a"), ("x-other", "b")])

    headers = provider.calls[0].headers
    names = [name for name, _ in headers]
    assert headers.get("x-key") == "a"
    assert not {"content-length", "transfer-encoding"} & {name.lower() for name in names}
    assert names.index("X-Key") < names.index("x-other")


@pytest.mark.parametrize(
    ("url", "content"),
    [
        pytest.param("http://a/v1/embeddings", b'{"input": []}', id="unknown-format"),
        pytest.param(URL, b"no json", id="no-json"),
        pytest.param(URL, b"[1]", id="no-object"),
        pytest.param(URL, b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="deep"),
        pytest.param(URL, b"", id="nothing"),
    ],
)
def test_what_no_adapter_knows_passes_untouched(home, family, url, content):
    client, _, provider = upgraded(home, family, Answer(b"as it came"))

    with in_a_call(client):
        response = posted(home, client, url=url, content=content)

    assert response.content == b"as it came"
    assert (provider.calls[0].body, provider.calls[0].adapter) == (content, None)


def test_a_streamed_request_is_sent_as_a_stream(family):
    client, _, provider = upgraded(BLOCKING, family, Answer())

    with in_a_call(client):
        client.post(URL, content=iter([b"{", b"}"]))

    assert not provider.calls[0].is_repeatable
    assert b"".join(provider.calls[0].body) == b"{}"


def test_bytes_pass_untouched_and_the_family_decodes(home, family):
    packed = gzip.compress(START + text("Paris") + STOP)
    answer = a_stream(packed[:20], packed[20:], content_encoding="gzip")
    client, transport, _ = upgraded(home, family, answer, answer)

    with in_a_call(client):
        raw = b"".join(home.all(as_raw(home, streamed(home, client))))
        response = posted(home, client)

    assert raw == packed
    assert response.content == START + text("Paris") + STOP
    assert transport.pipeline.last_report.usage.output == 2


def as_raw(home, response):
    return response.aiter_raw() if home.is_async else response.iter_raw()


def test_a_long_error_body_passes_whole(home, family):
    """Only its beginning is looked at."""
    pieces = [b"x" * 50_000] * 4
    client, _, _ = upgraded(home, family, Answer(*pieces, status=400))

    with in_a_call(client):
        response = posted(home, client)

    assert (response.status_code, len(response.content)) == (400, 200_000)


def test_a_busy_provider_is_asked_again_below_the_client(home, family):
    client, transport, _ = upgraded(home, family, BUSY, Answer(MESSAGE))

    with in_a_call(client, max_retries=1):
        response = posted(home, client)

    assert response.status_code == 200
    assert [one.status for one in transport.pipeline.last_report.attempts] == [529, 200]


def test_the_last_error_reply_is_the_clients(home, family):
    client, _, _ = upgraded(home, family, BUSY)

    with in_a_call(client, max_retries=0):
        response = posted(home, client)

    assert (response.status_code, response.json()["error"]["type"]) == (529, "overloaded_error")


def test_an_error_in_a_stream_before_its_content_is_never_seen(home, family):
    answers = a_stream(START + OVERLOAD), a_stream(START, text("Paris"), STOP)
    client, _, _ = upgraded(home, family, *answers)

    with in_a_call(client, max_retries=1):
        response = posted(home, client)

    assert response.content == START + text("Paris") + STOP


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("connect", "ConnectError", id="connect"),
        pytest.param("read_timeout", "ReadTimeout", id="timeout"),
    ],
)
def test_a_failure_is_the_familys_and_ours(home, family, kind, name):
    cause = OSError("refused")
    error = ExchangeError("it broke", kind=kind)
    error.__cause__ = cause
    client, _, _ = upgraded(home, family, error)

    with in_a_call(client), pytest.raises(getattr(family, name)) as caught:
        posted(home, client)

    assert isinstance(caught.value, ExchangeError)
    assert caught.value.__cause__ is cause
    assert str(caught.value.request.url) == URL


def test_a_failure_in_the_body_is_the_familys_and_ours(home, family):
    error = ExchangeError("it broke", kind="closed", sent="all")
    client, _, _ = upgraded(home, family, a_stream(START + text("Pa"), error))

    with in_a_call(client), pytest.raises(family.RemoteProtocolError) as caught:
        posted(home, client)

    assert isinstance(caught.value, ExchangeError)
    assert caught.value.request.method == "POST"


def test_a_stream_that_ends_early_is_a_failure_of_the_family(home, family):
    """The client would take what came for the whole answer."""
    client, _, _ = upgraded(home, family, a_stream(START + text("Pa")))

    with in_a_call(client), pytest.raises(family.RemoteProtocolError) as caught:
        posted(home, client)

    assert isinstance(caught.value, ExchangeError)
    assert "without its terminal event" in str(caught.value)


def test_a_stream_that_was_closed_has_not_ended_early(home, family):
    client, _, _ = upgraded(home, family, a_stream(START + text("Pa"), STOP))

    with in_a_call(client):
        response = streamed(home, client)
        stream = response.stream
        home.do(response.aclose() if home.is_async else response.close())

    assert home.all(stream) == []


@pytest.mark.parametrize(
    ("pieces", "finished"),
    [
        pytest.param([START + text("a") + STOP, b"never"], True, id="whole-answer"),
        pytest.param([START + text("a"), STOP], False, id="half"),
    ],
)
def test_closing_early_keeps_the_connection_when_the_answer_is_whole(
    home, family, pieces, finished
):
    client, transport, provider = upgraded(home, family, a_stream(*pieces))

    with in_a_call(client):
        response = streamed(home, client)
        home.do(response.aclose() if home.is_async else response.close())

    assert provider.responses[0].closed == [finished]
    assert transport.pipeline.last_report.error == "cut"


def test_without_connections_of_ours_the_one_below_carries_it(world, family):
    below = Below(family)
    client, transport, _ = upgraded(world, family, below=below)

    with in_a_call(client):
        response = posted(world, client)

    assert (response.status_code, response.content) == (299, b"from below")
    assert transport.pipeline.last_report.status == 299


def test_under_trio_the_one_below_carries_it(family):
    """Our own async connections are asyncio's."""
    below = Below(family)
    client, _, provider = upgraded(TRIO, family, Answer(), below=below)

    with in_a_call(client):
        assert posted(TRIO, client).status_code == 299

    assert provider.calls == []


def test_a_mock_put_into_the_class_below_is_obeyed(home, family, monkeypatch):
    """Mocks for tests patch the class, often after the client was made."""
    below = Below(family)
    client, _, provider = upgraded(home, family, Answer(), Answer(), below=below)

    mocked = {"side_effect": lambda request: family.Response(218)}
    monkeypatch.setattr(Below, "handle_request", Mock(**mocked))
    monkeypatch.setattr(Below, "handle_async_request", AsyncMock(**mocked))
    with in_a_call(client):
        assert posted(home, client).status_code == 218
    monkeypatch.undo()
    with in_a_call(client):
        assert posted(home, client).status_code == 200

    assert len(provider.calls) == 1


def test_the_start_of_the_call_is_the_clients(home, family):
    client, transport, _ = upgraded(home, family, Answer(MESSAGE))

    with in_a_call(client, started=-3.0):
        posted(home, client)

    assert transport.pipeline.last_report.duration == 3.0


def test_the_client_closes_both(world, family):
    below = Below(family)
    client, _, provider = upgraded(world, family, Answer(), below=below)

    world.enter(client)
    world.exit(client)

    assert (below.num_entered, below.num_closed) == (1, 1)
    assert provider.is_closed is (world is not TRIO)


def test_without_connections_only_the_one_below_is_closed(world, family):
    below = Below(family)
    client, _, _ = upgraded(world, family, below=below)

    world.do(client.aclose() if world.is_async else client.close())

    assert below.num_closed == 1
