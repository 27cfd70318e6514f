"""Client classes of clouds, and a server that checks AWS signatures."""

from __future__ import annotations

import datetime
import hashlib
import hmac
from typing import Any

import msgspec
import pytest

from smartclient._call import Call, Reply
from smartclient._flow import Flow, Next, Policy
from smartclient._pipeline import Pipeline
from tests.sdk_matrix.sides import SIDES

__all__ = ["AZURE", "BEDROCK", "MESSAGE", "Azure", "Bedrock", "Signed"]

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "Paris"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
KEY, SECRET, REGION = "AKIDEXAMPLE", "not-a-secret", "eu-west-1"


class Azure:
    """openai's client class for Azure."""

    def __init__(self, package: Any, *, is_async: bool) -> None:
        self._kind = package.AsyncAzureOpenAI if is_async else package.AzureOpenAI
        self._plain = package.AsyncOpenAI if is_async else package.OpenAI
        self._is_async = is_async

    def client(self, server: Any, **options: Any) -> Any:
        return self._kind(azure_endpoint=server.base_url, api_version="2025-01-01", **options)

    def plain(self, server: Any, api_key: Any) -> Any:
        """No client of Azure's, but one that is given a function for its key."""
        return self._plain(base_url=f"{server.base_url}/v1", api_key=api_key)

    def provider(self, given: list[str], *, fails_from: int = 100) -> Any:
        """Gives a new token each time, and notes it."""

        def token() -> str:
            if len(given) + 1 >= fails_from:
                raise LookupError("no more tokens")
            given.append(f"token-{len(given) + 1}")
            return given[-1]

        async def token_async() -> str:
            return token()

        return token_async if self._is_async else token


class Bedrock:
    """anthropic's client class for Bedrock, with credentials of nobody."""

    def __init__(self, package: Any, *, is_async: bool) -> None:
        self._kind = package.AsyncAnthropicBedrock if is_async else package.AnthropicBedrock

    def client(self, server: Any, **options: Any) -> Any:
        return self._kind(
            base_url=server.base_url,
            aws_access_key=KEY,
            aws_secret_key=SECRET,
            aws_region=REGION,
            **options,
        )

    def edit(self, client: Any, fields: dict[str, Any]) -> None:
        """Let a policy add `fields` to the body of each attempt of a wrapped client."""
        transport = client._client._transport

        class Editing(Pipeline):
            def _policies(self) -> list[Policy]:
                return [*super()._policies(), _Edit(fields)]

        transport.pipeline = Editing(transport.pipeline.settings)


class _Edit:
    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def flow(self, call: Call, call_next: Next) -> Flow[Reply]:
        payload = msgspec.json.decode(call.body)
        return (yield from call_next(call.with_payload(payload | self._fields)))


class Signed:
    """Answers in order, and checks that each request is signed as it came.

    Source: AWS General Reference, "Create a signed AWS API request".

    Attributes:
        checked: Whether the signature of each request was right.
        counts: What each said of how often it was sent before.
    """

    def __init__(self, answers: list[Any]) -> None:
        self._answers = answers
        self.checked: list[bool] = []
        self.bodies: list[bytes] = []
        self.counts: list[str | None] = []

    def answer(self, request: Any) -> Any:
        self.checked.append(_is_signed(request))
        self.bodies.append(request.body)
        self.counts.append(request.header("x-stainless-retry-count"))
        return self._answers[len(self.bodies) - 1]


def _is_signed(request: Any) -> bool:
    kind, _, rest = request.header("authorization").partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    names = fields["SignedHeaders"].split(";")
    headers = "".join(f"{name}:{' '.join(request.header(name).split())}\n" for name in names)
    digest = hashlib.sha256(request.body).hexdigest()
    canonical = "\n".join(
        [request.method, request.path, request.query, headers, ";".join(names), digest]
    )
    at = request.header("x-amz-date")
    day = datetime.datetime.strptime(at, "%Y%m%dT%H%M%SZ").strftime("%Y%m%d")
    scope = f"{day}/{REGION}/bedrock/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    expected = hmac.new(key, f"{kind}\n{at}\n{scope}\n{hashed}".encode(), "sha256").hexdigest()
    return hmac.compare_digest(fields["Signature"], expected)


def _clouds(name: str, kind: Any) -> list[Any]:
    return [
        pytest.param(kind(side.package, is_async=side.is_async), id=side.name)
        for side in SIDES
        if side.package.__name__ == name
    ]


AZURE = pytest.mark.parametrize("azure", _clouds("openai", Azure))
BEDROCK = pytest.mark.parametrize("bedrock", _clouds("anthropic", Bedrock))
