"""Clients that are wrapped, copied, shared, closed and given back."""

from __future__ import annotations

import httpx
import pytest

import server_reference
import smartclient
from server_reference.scripted import ErrorAnswer
from smartclient.transports.httpx import AsyncTransport, Transport
from tests.sdk_matrix.sides import EVERY, SIDES, entered, items

pytestmark = pytest.mark.sdk


def at_once(state):
    """A tenacity `wait`: no test waits."""
    return 0.0


BOTH = pytest.mark.parametrize(
    ("openai_side", "anthropic_side"),
    [
        pytest.param(one, other, id="async" if one.is_async else "sync")
        for one in SIDES
        for other in SIDES
        # Newer openai takes both families' clients, anthropic its own only.
        if other.is_anthropic
        and not one.is_anthropic
        and one.is_async is other.is_async
        and (one.family is other.family or other.family is httpx)
    ],
)


@EVERY
async def test_a_client_keeps_its_identity_and_its_class_by_name(side):
    with server_reference.scripted("Paris") as server:
        client = side.client(server)
        kind = type(client)

        assert smartclient.wrap(client) is client
        assert isinstance(client, kind)
        assert type(client).__qualname__ == kind.__qualname__
        await side.close(client)


@EVERY
async def test_an_sdks_own_client_runs_over_our_connections(side):
    with server_reference.scripted("Paris") as server:
        client = smartclient.wrap(side.client(server))
        for _ in range(3):
            await items(await side.ask(client, stream=True))
        await side.close(client)
        server.assert_reused(connections=1)


@EVERY
async def test_a_given_http_client_runs_over_our_connections_too(side):
    with server_reference.scripted("Paris") as server:
        client = smartclient.wrap(side.client(server, http_client=side.http()))
        for _ in range(3):
            await items(await side.ask(client, stream=True))
        await side.close(client)
        server.assert_reused(connections=1)


@EVERY
async def test_two_clients_may_share_one_http_client(side):
    with server_reference.scripted("Paris") as server:
        http = side.http()
        first, second = (side.client(server, http_client=http) for _ in range(2))
        smartclient.wrap(first)
        smartclient.wrap(second)
        await side.ask(first)
        smartclient.unwrap(first)
        answer = await side.ask(second)
        await side.close(second)
        server.assert_reused(connections=1)

    assert side.text(answer) == "Paris"
    assert len(smartclient.last_report(second).attempts) == 1


@BOTH
async def test_clients_of_two_sdks_may_share_one_http_client(openai_side, anthropic_side):
    sides = openai_side, anthropic_side
    answers = [ErrorAnswer(503), "Paris", ErrorAnswer(503), "Paris", ErrorAnswer(400)]
    with server_reference.scripted(answers) as server:
        http = anthropic_side.http()
        first, second = (
            smartclient.wrap(side.client(server, http_client=http), wait=at_once) for side in sides
        )
        told = [
            side.text(await side.ask(client))
            for side, client in zip(sides, (first, second), strict=True)
        ]
        with pytest.raises(openai_side.package.BadRequestError):
            await openai_side.ask(first)
        smartclient.unwrap(first)
        assert isinstance(http._transport, (Transport, AsyncTransport))
        smartclient.unwrap(second)
        await openai_side.close(first)
        server.assert_reused(connections=1)

    assert told == ["Paris", "Paris"]
    assert not isinstance(http._transport, (Transport, AsyncTransport))


@EVERY
async def test_a_second_wrap_changes_nothing(side):
    reports = []
    with server_reference.scripted("Paris") as server:
        client = smartclient.wrap(side.client(server), on_report=reports.append)
        kind = type(client)
        assert smartclient.wrap(client) is client
        await side.ask(client)
        await side.close(client)
        server.assert_attempts(1)

    assert type(client) is kind
    assert len(reports) == 1


@EVERY
async def test_a_copy_is_wrapped_until_its_original_is_not(side):
    with server_reference.scripted("Paris") as server:
        copy = (client := smartclient.wrap(side.client(server))).copy(max_retries=0)
        await side.ask(copy)
        reported = smartclient.last_report(copy)
        smartclient.unwrap(client)
        answer = await side.ask(copy)
        await side.close(client)

    assert reported.status == 200
    assert side.text(answer) == "Paris"


@EVERY
async def test_unwrap_restores_class_transport_and_limit(side):
    with server_reference.scripted("Paris") as server:
        client = side.client(server, max_retries=4)
        before = type(client), client._client._transport, dict(client._client._mounts)
        smartclient.unwrap(smartclient.wrap(client, max_retries=1))
        answer = await side.ask(client)
        after = type(client), client._client._transport, dict(client._client._mounts)
        await side.close(client)

    assert (after, client.max_retries) == (before, 4)
    assert side.text(answer) == "Paris"


@EVERY
async def test_a_client_is_a_context_manager_as_before(side):
    with server_reference.scripted("Paris") as server:
        async with entered(smartclient.wrap(side.client(server))) as client:
            answer = await side.ask(client)
        server.assert_no_leaks()

    assert side.text(answer) == "Paris"
    assert client.is_closed()
