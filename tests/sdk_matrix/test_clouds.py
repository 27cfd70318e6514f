"""Clients of Azure, and one that is given a function for its key."""

from __future__ import annotations

import pytest

import server_reference
import smartclient
from server_reference.scripted import ErrorAnswer, fault
from tests.sdk_matrix.clouds import AZURE
from tests.sdk_matrix.sides import ASKED, settled

pytestmark = pytest.mark.sdk


def at_once(state):
    """A tenacity `wait`: no test waits."""
    return 0.0


@AZURE
async def test_azure_with_a_key_is_asked_again_by_us_alone(azure):
    with server_reference.scripted([ErrorAnswer(503), "Paris"]) as server:
        client = smartclient.wrap(azure.client(server, api_key="key"), wait=at_once)
        answer = await settled(client.chat.completions.create(model="tiny", messages=ASKED))
        await settled(client.close())
        targets = [entry.target for entry in server.journal.entries()]

    assert answer.choices[0].message.content == "Paris"
    assert targets == ["/openai/deployments/tiny/chat/completions?api-version=2025-01-01"] * 2


@AZURE
async def test_azure_asks_for_a_token_before_each_attempt(azure):
    given, came = [], []

    def answer(request):
        came.append(request.header("authorization"))
        return [ErrorAnswer(503), fault("no_reply"), "Paris"][len(came) - 1]

    with server_reference.scripted(answer) as server:
        provider = azure.provider(given)
        client = smartclient.wrap(
            azure.client(server, azure_ad_token_provider=provider), wait=at_once
        )
        answer = await settled(client.chat.completions.create(model="tiny", messages=ASKED))
        await settled(client.close())

    assert given == ["token-1", "token-2", "token-3"]
    assert came == [f"Bearer {token}" for token in given]
    assert len(smartclient.last_report(client).attempts) == 3


@AZURE
async def test_a_failing_token_ends_the_call_and_is_reported(azure):
    given, reports = [], []
    with server_reference.scripted(ErrorAnswer(503)) as server:
        provider = azure.provider(given, fails_from=2)
        plain = azure.client(server, azure_ad_token_provider=provider)
        client = smartclient.wrap(plain, wait=at_once, on_report=reports.append)
        with pytest.raises(LookupError, match="no more tokens"):
            await settled(client.chat.completions.create(model="tiny", messages=ASKED))
        await settled(client.close())

    assert [(one.error, len(one.attempts)) for one in reports] == [("LookupError", 1)]


@AZURE
async def test_a_function_for_a_key_is_asked_before_each_attempt(azure):
    given, came = [], []

    def answer(request):
        came.append(request.header("authorization"))
        return [ErrorAnswer(503), "Paris"][len(came) - 1]

    with server_reference.scripted(answer) as server:
        client = smartclient.wrap(azure.plain(server, azure.provider(given)), wait=at_once)
        await settled(client.chat.completions.create(model="tiny", messages=ASKED))
        await settled(client.close())

    assert came == ["Bearer token-1", "Bearer token-2"]
