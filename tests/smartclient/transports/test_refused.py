"""A call that was not sent, as an SDK hears of it."""

from __future__ import annotations

import json

import anthropic
import httpx
import httpx2
import openai
import pytest

from smartclient import Budget, last_report, scope, wrap
from smartclient._errors import RefusedError
from smartclient._settings import Settings
from smartclient.budgets import Downgrade
from smartclient.testing import ManualClock
from smartclient.transports.refused import as_reply
from tests.smartclient.sdk_clients import SDKS

pytestmark = pytest.mark.sdk


@pytest.fixture(params=SDKS)
def sdk(request):
    return request.param


def test_a_refusal_is_the_sdks_own_status_error(sdk):
    client, transport = sdk.client(sdk.answer)
    wrap(client, Settings(clock=ManualClock(0.0), budgets=[Budget(name="app", tokens=5)]))

    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
        sdk.ask(client)

    assert caught.value.status_code == 402
    assert "budget 'app' allows 5 tokens in all, so it can never fit" in str(caught.value)
    assert not transport.requests
    assert (last_report(client).error, last_report(client).attempts) == ("refused", [])


def test_a_scope_holds_for_the_calls_of_an_sdk(sdk):
    client, _ = sdk.client(sdk.answer, sdk.answer)
    wrap(client, Settings(clock=ManualClock(0.0)))
    budget = Budget(name="run", requests=1)

    with scope(tag="ann", budget=budget):
        sdk.ask(client)
        with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)):
            sdk.ask(client)
    sdk.ask(client)

    assert budget.left() == {"requests": 0}


def test_a_deadline_that_has_passed_is_the_sdks_time_out(sdk):
    client, transport = sdk.client(sdk.answer)
    wrap(client, Settings(clock=ManualClock(0.0), max_retries=3))

    told = pytest.raises((openai.APITimeoutError, anthropic.APITimeoutError))
    with scope(deadline=1e-9), told:
        sdk.ask(client)

    assert not transport.requests


def test_a_downgrade_comes_before_the_signature(sdk):
    """A hook may sign what it sees, so the SDK prepares the shorter request itself."""
    client, transport = sdk.client(sdk.answer)
    seen = []

    def sign(request):
        seen.append(json.loads(request.content)["max_tokens"])

    async def sign_async(request):
        sign(request)

    client._client.event_hooks["request"] = [sign_async if sdk.world.is_async else sign]
    budget = Budget(name="app", tokens=60, on_limit=Downgrade(max_tokens=1))
    wrap(client, Settings(clock=ManualClock(0.0), budgets=[budget]))

    sdk.world.do(sdk.asked(client, **({} if sdk.is_anthropic else {"max_tokens": 500})))

    sent = json.loads(transport.requests[-1].content)["max_tokens"]
    assert seen[-1] == sent
    assert sdk.is_anthropic or sent < 60
    assert budget.state().held["tokens"] == 0
    assert budget.state().spent["tokens"] == 11


@pytest.mark.parametrize("family", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_any_refusal_says_that_trying_again_does_not_help(family):
    request = family.Request("POST", "http://provider.test/v1/messages")

    reply = as_reply(RefusedError("not today"), family, request)

    assert (reply.status_code, reply.headers["x-should-retry"]) == (400, "false")
    assert json.loads(reply.content) == {
        "type": "error",
        "error": {"type": "refused_error", "code": "refused", "message": "not today"},
    }


def test_the_facts_of_a_budget_are_in_the_body(sdk):
    client, _ = sdk.client(sdk.answer)
    wrap(client, Settings(clock=ManualClock(0.0), budgets=[Budget(name="app", tokens=5)]))

    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
        sdk.ask(client)

    told = caught.value.response.json()["error"]
    assert (told["budget"], told["meter"], told["limit"]) == ("app", "tokens", 5)
    assert told["asked"] > 5
