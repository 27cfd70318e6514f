from __future__ import annotations

import asyncio

import pytest

from server_reference.gateway.app import Gateway
from server_reference.gateway.auth import AdminKey, ApiKeys
from server_reference.gateway.request_log import RequestLog
from tests.server_reference.asgi import Client


class Api:
    """An app behind the gateway, which tells what it was given."""

    def __init__(self):
        self.calls = []

    async def __call__(self, scope, receive, send):
        self.calls.append(scope["state"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


def call(path="/v1/messages", body=b"{}", *, keys=None, admin=None, headers=(), chunks=None):
    api, lines = Api(), []
    log = RequestLog(lines.append)
    gateway = Gateway(
        api,
        keys=ApiKeys(keys),
        admin=AdminKey(admin, api_keys=keys),
        max_body_bytes=100,
        request_log=log,
    )

    async def main():
        client = Client(gateway)
        return await client.request("POST", path, body, headers=headers, chunks=chunks)

    reply = asyncio.run(main())
    log.close()
    return reply, api.calls, lines


def test_a_call_is_let_in_with_its_body_and_tenant():
    reply, (state,), _ = call(keys={"k": "ann"}, headers={"x-api-key": "k"}, chunks=[b"a", b"b"])

    assert reply.status == 200
    assert state["body"] == b"ab"
    assert state["record"].tenant == "ann"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        pytest.param("/v1/messages", {"request-id", "x-request-id"}, id="anthropic"),
        pytest.param("/v1/chat/completions", {"x-request-id"}, id="openai"),
    ],
)
def test_every_reply_carries_the_requests_id(path, names):
    reply, (state,), _ = call(path)

    assert {name for name in reply.headers if "request-id" in name} == names
    assert {reply.headers[name] for name in names} == {state["record"].id}


def test_every_reply_carries_the_stages_so_far():
    reply, _, _ = call()

    assert reply.headers["server-timing"].startswith("gateway;dur=")


@pytest.mark.parametrize(
    ("given", "status", "type"),
    [
        pytest.param({"keys": ["k"]}, 401, "authentication_error", id="no-key"),
        pytest.param({"body": b"x" * 101}, 413, "request_too_large", id="body-too-long"),
    ],
)
def test_a_refusal_has_the_apis_shape_and_goes_no_further(given, status, type):
    reply, calls, (line,) = call(**given)

    assert (reply.status, reply.json()["error"]["type"]) == (status, type)
    assert reply.json()["request_id"] == reply.headers["request-id"] == line["request_id"]
    assert calls == []
    assert line["status"] == status


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready"])
def test_health_needs_no_key_and_is_not_logged(path):
    reply, _, lines = call(path, keys=["k"])

    assert reply.status == 200
    assert lines == []


def test_a_call_is_logged_when_it_is_over():
    _, _, (line,) = call("/v1/chat/completions")

    assert (line["endpoint"], line["status"], line["tenant"]) == (
        "/v1/chat/completions",
        200,
        "default",
    )


def test_a_client_that_leaves_before_its_body_is_there_gets_nothing():
    api, lines = Api(), []
    log = RequestLog(lines.append)
    gateway = Gateway(
        api, keys=ApiKeys(None), admin=AdminKey(None), max_body_bytes=100, request_log=log
    )

    async def main():
        client = Client(gateway)
        client.gone.set()
        return await client.request("POST", "/v1/messages", chunks=[])

    reply = asyncio.run(main())
    log.close()

    assert reply.status is None
    assert api.calls == []
    assert lines[0]["outcome"] == "disconnected"


def test_what_all_tenants_do_is_for_the_admin():
    tenant, seen, _ = call("/debug/steps", keys={"k": "ann"}, admin="s", headers={"x-api-key": "k"})
    admin, (state,), _ = call(
        "/debug/steps", keys={"k": "ann"}, admin="s", headers={"x-admin-key": "s"}
    )

    assert (tenant.status, seen, admin.status) == (401, [], 200)
    assert state["is_admin"] is True
