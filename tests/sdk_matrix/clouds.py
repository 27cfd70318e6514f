"""Client classes of clouds, and a server that checks AWS signatures."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import struct
import zlib
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from server_reference.scripted import json_reply
from server_reference.scripted.ops import Body, End, Head
from smartclient._call import Call, Reply
from smartclient._flow import Flow, Next, Policy
from smartclient._pipeline import Pipeline
from tests.sdk_matrix.sides import ASKED, SIDES, settled

__all__ = ["AZURE", "MESSAGE", "SIGNERS", "Azure", "Signed", "Signer", "amazons_events"]

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


class Signer:
    """A client class that signs its requests, with credentials of nobody."""

    def __init__(self, package: Any, name: str, service: str, given: dict[str, Any]) -> None:
        self._kind, self._given = getattr(package, name, None), given
        self.name, self.service = name, service
        self.is_there = self._kind is not None
        self.is_openai = package.__name__ == "openai"

    def client(self, server: Any, **options: Any) -> Any:
        base_url = f"{server.base_url}/v1" if self.is_openai else server.base_url
        return self._kind(base_url=base_url, aws_region=REGION, **self._given, **options)

    async def ask(self, client: Any, messages: Any = ASKED, **more: Any) -> Any:
        # As the models of Bedrock are named: a colon is escaped where it is signed.
        given = {"model": "anthropic.claude-v1:0", "max_tokens": 8, "messages": messages} | more
        resource = client.chat.completions if self.is_openai else client.messages
        return await settled(resource.create(**given))

    def answer(self) -> Any:
        """Of whatever path: a server that knows formats only does not know Bedrock's."""
        return "Paris" if self.is_openai else json_reply(MESSAGE)

    def edit(self, client: Any, fields: dict[str, Any]) -> None:
        """Let a policy add `fields` to the body of each attempt of a wrapped client."""
        transport = client._client._transport

        class Editing(Pipeline):
            def _policies(self, limits: list[Policy]) -> list[Policy]:
                return [*super()._policies(limits), _Edit(fields)]

        transport.pipeline = Editing(transport.pipeline.settings)


class _Edit:
    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def flow(self, call: Call, call_next: Next) -> Flow[Reply]:
        payload = msgspec.json.decode(call.body)
        return (yield from call_next(call.with_payload(payload | self._fields)))


def amazons_events(*events: dict[str, Any]) -> list[Any]:
    """A reply that holds `events` as Bedrock streams them.

    Source: Amazon Transcribe developer guide, "Event stream encoding".
    """
    body = b"".join(map(_frame, events))
    kind = ("content-type", "application/vnd.amazon.eventstream")
    return [Head(200, (kind,), None, "length", len(body)), Body(body), End()]


def _frame(event: dict[str, Any]) -> bytes:
    payload = json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode()
    named = {":event-type": "chunk", ":message-type": "event", ":content-type": "application/json"}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for name, value in named.items()
    )
    start = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    whole = start + struct.pack("!I", zlib.crc32(start)) + headers + payload
    return whole + struct.pack("!I", zlib.crc32(whole))


class Signed:
    """Answers in order, and checks that each request is signed as it came.

    Source: AWS General Reference, "Create a signed AWS API request".

    Args:
        service: For which it has to be signed.

    Attributes:
        checked: Whether the signature of each request was right.
        counts: What each said of how often it was sent before.
    """

    def __init__(self, answers: list[Any], service: str) -> None:
        self._answers, self._service = answers, service
        self.checked: list[bool] = []
        self.bodies: list[bytes] = []
        self.counts: list[str | None] = []

    def answer(self, request: Any) -> Any:
        self.checked.append(_is_signed(request, self._service))
        self.bodies.append(request.body)
        self.counts.append(request.header("x-stainless-retry-count"))
        return self._answers[len(self.bodies) - 1]


def _is_signed(request: Any, service: str) -> bool:
    kind, _, rest = request.header("authorization").partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    names = fields["SignedHeaders"].split(";")
    headers = "".join(f"{name}:{' '.join(request.header(name).split())}\n" for name in names)
    digest = hashlib.sha256(request.body).hexdigest()
    canonical = "\n".join(
        # Every service but S3 escapes the path once more than it is sent.
        [request.method, quote(request.path, "/~"), request.query, headers, ";".join(names), digest]
    )
    at = request.header("x-amz-date")
    day = datetime.datetime.strptime(at, "%Y%m%dT%H%M%SZ").strftime("%Y%m%d")
    scope = f"{day}/{REGION}/{service}/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    expected = hmac.new(key, f"{kind}\n{at}\n{scope}\n{hashed}".encode(), "sha256").hexdigest()
    return hmac.compare_digest(fields["Signature"], expected)


_AWS = {"aws_access_key": KEY, "aws_secret_key": SECRET}
_AWS_OF_OPENAI = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
_SIGNING: list[tuple[str, str, str, dict[str, Any]]] = [
    ("anthropic", "AnthropicBedrock", "bedrock", _AWS),
    ("anthropic", "AnthropicBedrockMantle", "bedrock-mantle", _AWS),
    ("anthropic", "AnthropicAWS", "aws-external-anthropic", _AWS | {"workspace_id": "w"}),
    ("openai", "BedrockOpenAI", "bedrock-mantle", _AWS_OF_OPENAI),
]
SIGNERS = [
    Signer(side.package, f"{'Async' if side.is_async else ''}{name}", service, given)
    for package, name, service, given in _SIGNING
    for side in SIDES
    if side.package.__name__ == package
]
AZURE = pytest.mark.parametrize(
    "azure",
    [
        pytest.param(Azure(side.package, is_async=side.is_async), id=side.name)
        for side in SIDES
        if not side.is_anthropic
    ],
)
