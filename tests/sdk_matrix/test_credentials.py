"""Clients that ask for a credential: a fresh one for each attempt, or one that is kept."""

from __future__ import annotations

import importlib

import pytest

import server_reference
import smartclient
from server_reference.scripted import ErrorAnswer, json_reply
from tests.sdk_matrix.clouds import MESSAGE
from tests.sdk_matrix.sides import SIDES, settled

pytestmark = pytest.mark.sdk


def at_once(state):
    """A tenacity `wait`: no test waits."""
    return 0.0


class Tokens:
    """Gives a new token each time it is asked for one, in every way that an SDK asks."""

    expired = False  # as google.auth's credentials have it

    def __init__(self) -> None:
        self.given: list[str] = []

    @property
    def token(self) -> str:
        self.given.append(f"token-{len(self.given) + 1}")
        return self.given[-1]

    def function(self) -> str:
        return self.token

    def provider(self, *, force_refresh=False):
        """As anthropic's clients ask, which keep what they get."""
        kind = importlib.import_module("anthropic.lib.credentials").AccessToken
        return kind(token=self.token, expires_at=None)

    def identity(self):
        """As openai's clients ask, which exchange what they get, and keep that."""
        subject = {"token_type": "jwt", "get_token": lambda: "subject"}
        return {"identity_provider_id": "i", "service_account_id": "s", "provider": subject}


# Each SDK's clients that ask for a token: how they are made of a server and tokens.


def _vertex(package, prefix, server, tokens):
    kind = getattr(package, f"{prefix}AnthropicVertex")
    return kind(base_url=server.base_url, region="eu", project_id="p", credentials=tokens)


def _google_cloud(package, prefix, server, tokens):
    kind = getattr(package, f"{prefix}AnthropicGoogleCloud")
    return kind(base_url=server.base_url, workspace_id="w", token_provider=tokens.function)


def _foundry(package, prefix, server, tokens):
    kind = getattr(package, f"{prefix}AnthropicFoundry")
    return kind(base_url=server.base_url, azure_ad_token_provider=tokens.function)


def _bedrock(package, prefix, server, tokens):
    kind = getattr(package, f"{prefix}BedrockOpenAI")
    return kind(
        base_url=f"{server.base_url}/v1",
        aws_region="eu-west-1",
        bedrock_token_provider=tokens.function,
    )


def _openai_vertex(package, prefix, server, tokens):
    vertex = importlib.import_module("openai.providers.vertex").vertex
    provider = vertex(base_url=f"{server.base_url}/v1", token_provider=tokens.function)
    return getattr(package, f"{prefix}OpenAI")(provider=provider)


def _kept(package, prefix, server, tokens):
    kind = getattr(package, f"{prefix}Anthropic")
    return kind(base_url=server.base_url, credentials=tokens.provider)


def _workload(package, prefix, server, tokens):
    kind = getattr(package, f"{prefix}OpenAI")
    client = kind(base_url=f"{server.base_url}/v1", workload_identity=tokens.identity())
    client._workload_identity_auth.token_exchange_url = f"{server.base_url}/token"
    return client


def _is_there(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _made(*ways):
    """Cases of each way for which the SDK that is installed has what it needs."""
    cases = [
        pytest.param(side, make, id=f"{'Async' if side.is_async else ''}{make.__name__}")
        for make, package, needs in ways
        for side in SIDES
        if side.package.__name__ == package
        and (hasattr(side.package, needs) or _is_there(f"{package}.{needs}"))
    ]
    return pytest.mark.parametrize(("side", "make"), cases)


FRESH = _made(
    (_vertex, "anthropic", "AnthropicVertex"),
    (_google_cloud, "anthropic", "AnthropicGoogleCloud"),
    (_foundry, "anthropic", "AnthropicFoundry"),
    (_bedrock, "openai", "BedrockOpenAI"),
    (_openai_vertex, "openai", "providers.vertex"),
)
KEPT = _made(
    (_kept, "anthropic", "lib.credentials"),
    (_workload, "openai", "auth._workload"),
)


class Door:
    """Answers all who show a token that is not refused, and notes what was shown.

    `broken` is how many are told 503 first.
    """

    def __init__(self, side, tokens, *, refused=(), broken=0) -> None:
        self._whole = json_reply(MESSAGE) if side.is_anthropic else "Paris"
        self._tokens, self._refused, self._broken = tokens, refused, broken
        self.shown: list[str] = []
        self.counts: list[str | None] = []

    def answer(self, request):
        if request.path == "/token":
            given = {"access_token": self._tokens.token, "expires_in": 3600, "token_type": "Bearer"}
            return json_reply(given)
        self.shown.append(request.header("authorization").removeprefix("Bearer "))
        self.counts.append(request.header("x-stainless-retry-count"))
        if len(self.shown) <= self._broken:
            return ErrorAnswer(503)
        if self.shown[-1] in self._refused:
            return ErrorAnswer(401, headers={"x-should-retry": "false"})
        return self._whole


async def asked(side, make, *, is_wrapped=True, calls=1, **door):
    """What the door was shown in `calls` calls, and the client that made them."""
    tokens = Tokens()
    door = Door(side, tokens, **door)
    with server_reference.scripted(door.answer) as server:
        client = make(side.package, "Async" if side.is_async else "", server, tokens)
        if is_wrapped:
            smartclient.wrap(client, wait=at_once)
        try:
            for _ in range(calls):
                await side.ask(client)
        finally:
            await settled(client.close())
    return door, client


@FRESH
async def test_a_token_is_asked_for_before_each_attempt(side, make):
    door, client = await asked(side, make, broken=2)

    assert len(set(door.shown)) == 3
    assert door.counts == ["0", "1", "2"]
    assert len(smartclient.last_report(client).attempts) == 3


@KEPT
async def test_a_kept_token_serves_attempts_and_calls(side, make):
    door, _ = await asked(side, make, broken=1, calls=2)

    assert door.shown == ["token-1"] * 3
    assert door.counts == ["0", "1", "0"]


@KEPT
async def test_a_kept_token_that_is_refused_is_replaced_as_the_plain_client_does(side, make):
    refused = {"token-1"}
    plain, _ = await asked(side, make, is_wrapped=False, calls=2, refused=refused)
    door, _ = await asked(side, make, calls=2, refused=refused)

    assert door.shown == plain.shown == ["token-1", "token-2", "token-2"]
    assert door.counts == plain.counts


@KEPT
async def test_a_second_token_that_is_refused_too_is_the_callers_to_know(side, make):
    with pytest.raises(side.package.AuthenticationError):
        await asked(side, make, refused={"token-1", "token-2"})
