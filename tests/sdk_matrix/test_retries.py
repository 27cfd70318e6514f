"""One owner of retries: what the server counts, and what the caller catches in the end."""

from __future__ import annotations

import pickle
import socket

import pytest

import server_reference
import smartclient
from server_reference.scripted import Answer, ErrorAnswer, fault
from tests.sdk_matrix.sides import EVERY, items

pytestmark = pytest.mark.sdk


def at_once(state):
    """A tenacity `wait`: no test waits."""
    return 0.0


@EVERY
async def test_what_passes_is_asked_again_until_it_has_passed(side):
    with server_reference.scripted([ErrorAnswer(503), fault("no_reply"), "Paris"]) as server:
        client = smartclient.wrap(side.client(server), wait=at_once)
        answer = await side.ask(client)
        await side.close(client)
        server.assert_attempts(3)

    assert side.text(answer) == "Paris"


@EVERY
@pytest.mark.parametrize("limit", [0, 1, 2])
async def test_the_sdks_limit_is_kept_and_kept_once(side, limit):
    """Two owners would multiply: a limit of 2 twice makes nine attempts.

    The server counts by what each request says of those before it.
    """
    with server_reference.scripted(ErrorAnswer(503)) as server:
        client = smartclient.wrap(side.client(server, max_retries=limit), wait=at_once)
        with pytest.raises(side.package.InternalServerError):
            await side.ask(client)
        await side.close(client)
        server.assert_attempts(limit + 1)

    assert client.max_retries == limit


@EVERY
async def test_a_copys_options_hold_for_the_copy(side):
    with server_reference.scripted(ErrorAnswer(503)) as server:
        client = smartclient.wrap(side.client(server, max_retries=5), wait=at_once)
        with pytest.raises(side.package.InternalServerError):
            await side.ask(client.with_options(max_retries=1))
        await side.close(client)
        server.assert_attempts(2)


@EVERY
@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (404, "NotFoundError"),
        (422, "UnprocessableEntityError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    ],
)
async def test_a_status_is_the_sdks_own_error(side, status, name):
    with server_reference.scripted(ErrorAnswer(status, message="no luck")) as server:
        plain = side.client(server, max_retries=0)
        with pytest.raises(getattr(side.package, name)) as expected:
            await side.ask(plain)
        with pytest.raises(getattr(side.package, name)) as caught:
            await side.ask(smartclient.wrap(plain))
        await side.close(plain)

    assert type(caught.value) is type(expected.value)
    assert caught.value.status_code == status
    assert str(caught.value).replace("2", "1") == str(expected.value).replace("2", "1")


def a_closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


class Nowhere:
    base_url = f"http://127.0.0.1:{a_closed_port()}"


@EVERY
async def test_a_refused_connection_is_the_sdks_connection_error(side):
    client = smartclient.wrap(side.client(Nowhere, max_retries=0))

    with pytest.raises(side.package.APIConnectionError) as caught:
        await side.ask(client)
    await side.close(client)

    assert isinstance(caught.value.__cause__, side.family.ConnectError)
    assert isinstance(caught.value.__cause__, smartclient.ExchangeError)


@EVERY
async def test_the_error_below_the_sdks_travels_between_processes(side):
    client = smartclient.wrap(side.client(Nowhere, max_retries=0))
    with pytest.raises(side.package.APIConnectionError) as caught:
        await side.ask(client)
    await side.close(client)

    error = pickle.loads(pickle.dumps(caught.value.__cause__))

    assert isinstance(error, side.family.ConnectError)
    assert (error.kind, str(error)) == ("connect", str(caught.value.__cause__))


@EVERY
@pytest.mark.parametrize("where", ["client", "copy", "call"])
async def test_a_timeout_is_kept_wherever_it_was_given(side, where):
    with server_reference.scripted(Answer("late", ttft=30.0)) as server:
        given = {"timeout": 0.05} if where == "client" else {}
        client = smartclient.wrap(side.client(server, max_retries=0, **given))
        used = client.with_options(timeout=0.05) if where == "copy" else client
        more = {"timeout": 0.05} if where == "call" else {}
        with pytest.raises(side.package.APITimeoutError) as caught:
            await side.ask(used, **more)
        await side.close(client)

    assert isinstance(caught.value.__cause__, side.family.ReadTimeout)


@EVERY
async def test_a_stream_that_breaks_is_the_sdks_connection_error(side):
    """anthropic lets out what its HTTP client raises there; here both can be caught alike."""
    broken = Answer("Paris is the capital") | fault("reset_after", events=3)
    with server_reference.scripted(broken) as server:
        client = smartclient.wrap(side.client(server, max_retries=0))
        with pytest.raises(side.package.APIConnectionError):
            await items(await side.ask(client, stream=True))
        await side.close(client)


@EVERY
async def test_the_error_of_a_broken_stream_travels_between_processes(side):
    broken = Answer("Paris is the capital") | fault("reset_after", events=3)
    with server_reference.scripted(broken) as server:
        client = smartclient.wrap(side.client(server, max_retries=0))
        with pytest.raises(side.package.APIConnectionError) as caught:
            await items(await side.ask(client, stream=True))
        await side.close(client)

    cause = caught.value.__cause__
    ours = caught.value if isinstance(caught.value, smartclient.ExchangeError) else cause
    error = pickle.loads(pickle.dumps(ours))

    assert type(error) is type(ours)
    assert (error.kind, str(error)) == (ours.kind, str(ours))


@EVERY
async def test_a_stream_that_breaks_before_its_content_is_asked_for_again(side):
    with server_reference.scripted([fault("reset_after", events=1), "Paris"]) as server:
        client = smartclient.wrap(side.client(server), wait=at_once)
        events = await items(await side.ask(client, stream=True))
        await side.close(client)
        server.assert_attempts(2)

    assert "Paris" in str(events)
