from __future__ import annotations

import asyncio
import json
import threading

import pytest

from server_reference.api.app import _read, create_app
from server_reference.api.errors import ApiError
from server_reference.api.events import Failed, Finished, Started, TextDelta
from server_reference.api.record import CallRecord
from tests.server_reference.asgi import Client, events

ANSWER = [Started(3, 1), TextDelta("Hi"), Finished("stop", 1)]
MESSAGES = {"model": "tiny", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}]}
RESPONSES = {"model": "tiny", "input": "Hello"}
PATHS = [
    pytest.param("/v1/messages", MESSAGES, id="anthropic"),
    pytest.param("/v1/chat/completions", CHAT, id="openai"),
    pytest.param("/v1/responses", RESPONSES, id="responses"),
]


def call(service, method, path, body=b"", *, headers=()):
    async def main():
        client = Client(create_app(service))
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        state = {"record": CallRecord(path), "body": raw}
        return await client.request(method, path, headers=headers, state=state)

    return asyncio.run(main())


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_request_is_answered_whole(service, path, body):
    service.events = ANSWER

    reply = call(service, "POST", path, body)

    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert b'"Hi"' in reply.body


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_request_is_answered_as_a_stream(service, path, body):
    service.events = ANSWER

    reply = call(service, "POST", path, {**body, "stream": True})

    assert reply.headers["content-type"].startswith("text/event-stream")
    assert len(events(reply.body)) >= 4


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_refusal_has_the_apis_shape(service, path, body, stream):
    service.events = [Failed(ApiError("rate_limited", "busy", retry_after=3))]

    reply = call(service, "POST", path, {**body, "stream": stream})

    assert reply.status == 429
    assert reply.headers["retry-after"] == "3"
    assert reply.json()["error"]["message"] == "busy"
    assert reply.json()["request_id"].startswith("req_")


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_body_that_is_wrong_is_never_the_frameworks_422(service, path, body):
    reply = call(service, "POST", path, b"{")

    assert reply.status == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"


def test_tokens_are_counted(service):
    reply = call(service, "POST", "/v1/messages/count_tokens", MESSAGES)

    assert reply.json() == {"input_tokens": 5}


def test_models_are_listed_in_the_callers_shape(service):
    anthropic = call(service, "GET", "/v1/models", headers={"anthropic-version": "2023-06-01"})
    openai = call(service, "GET", "/v1/models")

    assert anthropic.json()["data"][0]["type"] == "model"
    assert anthropic.json()["has_more"] is False
    assert openai.json()["object"] == "list"
    assert openai.json()["data"][0]["id"] == "tiny"


def test_one_model_is_described(service):
    assert call(service, "GET", "/v1/models/tiny").json()["object"] == "model"
    assert call(service, "GET", "/v1/models/other/one").status == 404


def test_an_unknown_path_is_404_in_the_callers_shape(service):
    reply = call(service, "GET", "/v1/nowhere", headers={"x-api-key": "k"})

    assert reply.status == 404
    assert reply.json()["error"]["type"] == "not_found_error"


def test_a_wrong_method_is_405_and_says_which_is_right(service):
    reply = call(service, "GET", "/v1/messages")

    assert reply.status == 405
    assert reply.headers["allow"] == "POST"
    assert reply.json()["type"] == "error"


@pytest.mark.parametrize(
    ("path", "status"), [("/health", 503), ("/health/ready", 503), ("/health/live", 200)]
)
def test_health_tells_life_from_readiness(service, path, status):
    assert call(service, "GET", path).status == 200

    service.is_ready = False

    assert call(service, "GET", path).status == status


def test_the_frameworks_own_pages_are_off(service):
    assert call(service, "GET", "/docs").status == 404
    assert call(service, "GET", "/redoc").status == 404


def test_a_client_that_goes_away_aborts_its_request(service):
    service.events = [Started(1, 0), 3600.0]

    async def main():
        client = Client(create_app(service))
        record = CallRecord("/v1/messages")
        body = b'{"model":"tiny","max_tokens":5,"messages":[{"role":"user","content":"x"}]}'
        client.gone.set()
        state = {"record": record, "body": body}
        await client.request("POST", "/v1/messages", state=state)
        return record

    assert asyncio.run(main()).outcome == "disconnected"
    assert service.aborted == 1


@pytest.mark.parametrize(
    ("length", "is_on_the_loop"),
    [pytest.param(100, True, id="short"), pytest.param(1 << 16, False, id="long")],
)
def test_a_long_body_is_checked_off_the_loop(length, is_on_the_loop):
    """32 MB of small objects took 7 s, in which no stream went on."""
    reader = asyncio.run(_read(lambda body: threading.get_ident(), b"x" * length))

    assert (reader == threading.get_ident()) is is_on_the_loop
