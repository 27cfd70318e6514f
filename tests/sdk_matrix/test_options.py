"""Clients as their users make them: HTTP clients of all kinds, and what is set afterwards."""

from __future__ import annotations

import asyncio
import threading

import pytest

import server_reference
import smartclient
from server_reference.scripted import ErrorAnswer, json_reply
from tests.sdk_matrix.sides import EVERY, SIDES, items, settled

pytestmark = pytest.mark.sdk


def at_once(state):
    """A tenacity `wait`: no test waits."""
    return 0.0


def transport(side, **options):
    kind = "AsyncHTTPTransport" if side.is_async else "HTTPTransport"
    return getattr(side.family, kind)(**options)


def default_client(side):
    """The HTTP client that an SDK offers to whoever wants to change something about it."""
    return getattr(side.package, f"Default{'Async' if side.is_async else ''}HttpxClient")(timeout=9)


def fitting(side, function):
    """`function` as a hook of `side`'s HTTP clients."""

    async def function_async(request):
        function(request)

    return function_async if side.is_async else function


HTTP_CLIENTS = {
    "limits": lambda side: side.http(limits=side.family.Limits(max_connections=1)),
    "no-keepalive": lambda side: side.http(limits=side.family.Limits(max_keepalive_connections=0)),
    "mounts": lambda side: side.http(mounts={"all://": transport(side), "http://a.test": None}),
    "timeout": lambda side: side.http(timeout=side.family.Timeout(9.0, connect=1.0)),
    "transport": lambda side: side.http(transport=transport(side)),
    "hooks": lambda side: side.http(event_hooks={"request": [fitting(side, id)]}),
    "cookies": lambda side: side.http(cookies={"a": "b"}, headers={"x-mine": "1"}),
    "sdks-default": default_client,
}


@EVERY
@pytest.mark.parametrize("make", [pytest.param(f, id=name) for name, f in HTTP_CLIENTS.items()])
async def test_our_connections_carry_an_ordinary_http_client(side, make):
    with server_reference.scripted([ErrorAnswer(503), "Paris", "Paris"]) as server:
        client = smartclient.wrap(side.client(server, http_client=make(side)), wait=at_once)
        answer = await side.ask(client)
        report = smartclient.last_report(client)
        plain = await side.ask(smartclient.unwrap(client))
        await side.close(client)
        server.assert_no_leaks()

    assert side.text(answer) == side.text(plain) == "Paris"
    assert [(one.status, report.protocol) for one in report.attempts] == [
        (503, "HTTP/1.1"),
        (200, "HTTP/1.1"),
    ]


@EVERY
async def test_a_transport_with_retries_of_its_own_stays_below_our_policies(side):
    with server_reference.scripted([ErrorAnswer(503), "Paris"]) as server:
        http = side.http(transport=transport(side, retries=2))
        client = smartclient.wrap(side.client(server, http_client=http), wait=at_once)
        await side.ask(client)
        await side.close(client)

    report = smartclient.last_report(client)
    assert ([one.status for one in report.attempts], report.protocol) == ([503, 200], None)


@EVERY
@pytest.mark.parametrize("how", ["hook", "auth"])
async def test_what_may_sign_a_request_is_asked_before_each_attempt(side, how):
    came = []

    def answer(request):
        came.append(request.header("x-signature"))
        return [ErrorAnswer(503), "Paris"][len(came) - 1]

    def sign(request):
        request.headers["x-signature"] = str(len(came) + 1)
        return request

    with server_reference.scripted(answer) as server:
        hooks = {"event_hooks": {"request": [fitting(side, sign)]}}
        http = side.http(**(hooks if how == "hook" else {"auth": sign}))
        client = smartclient.wrap(side.client(server, http_client=http), wait=at_once)
        await side.ask(client)
        await side.close(client)

    assert came == ["1", "2"]


@EVERY
async def test_what_is_set_on_a_wrapped_client_holds(side):
    keys = []

    def answer(request):
        keys.append(request.header("x-api-key") or request.header("authorization"))
        return "Paris"

    with server_reference.scripted(answer) as server:
        client = smartclient.wrap(side.client(server))
        client.api_key = "sk-other"
        client.base_url = side.family.URL(str(client.base_url))
        await side.ask(client)
        await side.ask(client.with_options(api_key="sk-third", timeout=7.0, max_retries=1))
        await side.close(client)

    assert [key.removeprefix("Bearer ") for key in keys] == ["sk-other", "sk-third"]


@EVERY
async def test_a_copy_keeps_what_it_was_given_and_leaves_the_original(side):
    with server_reference.scripted("Paris") as server:
        client = smartclient.wrap(side.client(server, max_retries=3, timeout=9.0))
        copy = client.copy(max_retries=0, timeout=7.0).with_options(timeout=5.0)
        await side.ask(copy)
        await side.close(client)

    assert (copy.max_retries, copy.timeout) == (0, 5.0)
    assert (client.max_retries, client.timeout) == (3, 9.0)


@EVERY
async def test_pages_and_paths_without_a_format_are_retried_too(side):
    page = json_reply({"object": "list", "data": [{"id": "tiny"}], "has_more": False})
    script = [ErrorAnswer(503), page, ErrorAnswer(503), json_reply({"a": 1})]
    with server_reference.scripted(script) as server:
        client = smartclient.wrap(side.client(server), wait=at_once)
        models = client.models.list()
        listed = await items(models)
        posted = await settled(client.post("/anything", cast_to=object, body={"b": 2}))
        await side.close(client)

    assert [one.id for one in listed] == ["tiny"]
    assert posted == {"a": 1}


@pytest.mark.parametrize("side", [pytest.param(s, id=s.name) for s in SIDES if s.is_async])
async def test_one_async_client_serves_loops_one_after_the_other_and_side_by_side(side):
    answers = []
    with server_reference.scripted("Paris") as server:
        client = smartclient.wrap(side.client(server))

        async def ask():
            answers.append(side.text(await side.ask(client)))

        def others():
            for _ in range(2):
                asyncio.run(ask())

        await ask()
        thread = threading.Thread(target=others)
        thread.start()
        await ask()
        await asyncio.to_thread(thread.join)
        await ask()
        await side.close(client)

    assert answers == ["Paris"] * 5


@EVERY
async def test_a_closed_client_says_so_as_before(side):
    with server_reference.scripted("Paris") as server:
        client = smartclient.wrap(side.client(server))
        await side.ask(client)
        await side.close(client)
        await side.close(client)
        with pytest.raises((RuntimeError, side.package.APIConnectionError)) as caught:
            await side.ask(client)

    assert "closed" in f"{caught.value}{caught.value.__cause__}"
