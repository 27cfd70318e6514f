"""The clients of the table behind one face: each makes a call as its documentation shows it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import anthropic
import httpx2
import openai

import smartclient
from smartclient.wire import recognise

__all__ = ["MAKERS", "ApiName", "Caller", "ClientName", "Connected", "Got", "Sent"]

ClientName: TypeAlias = Literal["openai", "anthropic", "smartclient"]
ApiName: TypeAlias = Literal["openai.chat", "anthropic.messages", "openai.responses"]
_CHAT, _MESSAGES, _RESPONSES = "openai.chat", "anthropic.messages", "openai.responses"


@dataclass(frozen=True, slots=True)
class Got:
    """What a caller has of an answer.

    Attributes:
        usage: Tokens of the input, those of it read from the cache, and of the output.
    """

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    usage: tuple[int | None, int | None, int | None] | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """What is asked, and how the answer is read."""

    messages: list[dict[str, Any]]
    stream: bool
    helper: bool

    @property
    def common(self) -> dict[str, Any]:
        return {"model": "any", "messages": self.messages}


@dataclass(frozen=True, slots=True)
class Connected:
    """How a client reaches the server; `None` leaves the client's own default."""

    base_url: str
    ca_file: str | None = None
    http2: bool = False
    timeout: float | None = None
    total: float | None = None
    retries: int | None = None


class Caller(Protocol):
    """One client and one wire format."""

    package: str
    own_errors: tuple[type[BaseException], ...]

    def ask(self, sent: Sent) -> Got: ...

    def open(self, sent: Sent) -> Any:
        """A stream, of which nothing was read yet; a context manager."""

    def pieces(self, sent: Sent) -> Iterator[str]:
        """The texts of a stream, one after another; closing it leaves the stream."""

    def close(self) -> None: ...


class _Sdk:
    """What both SDKs share: their options, and the HTTP client below them."""

    def __init__(self, made: type[Any], where: Connected, api: ApiName, path: str) -> None:
        options: dict[str, Any] = {}
        if where.timeout is not None:
            options["timeout"] = where.timeout
        if where.retries is not None:
            options["max_retries"] = where.retries
        if where.http2:
            options["http_client"] = httpx2.Client(http1=False, http2=True)
        elif where.ca_file is not None:
            trust = ssl.create_default_context(cafile=where.ca_file)
            options["http_client"] = httpx2.Client(verify=trust)
        self.api = api
        self.client = made(base_url=where.base_url + path, api_key="sk-test", **options)

    def close(self) -> None:
        self.client.close()


class OpenAI(_Sdk):
    """The official SDK: `chat.completions`, or `responses`."""

    package = "openai"
    own_errors = (openai.OpenAIError,)

    def __init__(self, where: Connected, api: ApiName) -> None:
        super().__init__(openai.OpenAI, where, api, "/v1")

    def ask(self, sent: Sent) -> Got:
        if self.api == _RESPONSES:
            return self._respond(sent)
        completions = self.client.chat.completions
        if not sent.stream:
            return _completion(completions.create(**sent.common))
        if not sent.helper:
            return Got("".join(self.pieces(sent)))
        with completions.stream(**sent.common, **_COUNTED) as events:
            for _ in events:
                pass
            return _completion(events.get_final_completion())

    def open(self, sent: Sent) -> Any:
        return self.client.chat.completions.create(**sent.common, stream=True)

    def pieces(self, sent: Sent) -> Iterator[str]:
        with self.open(sent) as chunks:
            yield from _chunk_texts(chunks)

    def _respond(self, sent: Sent) -> Got:
        with self.client.responses.stream(model="any", input="hi") as events:
            for _ in events:
                pass
            return _response(events.get_final_response())


class Anthropic(_Sdk):
    """The official SDK: `messages`."""

    package = "anthropic"
    own_errors = (anthropic.AnthropicError,)

    def __init__(self, where: Connected, api: ApiName) -> None:
        super().__init__(anthropic.Anthropic, where, api, "")

    def ask(self, sent: Sent) -> Got:
        messages, asked = self.client.messages, sent.common | {"max_tokens": 64}
        if not sent.stream:
            return _message(messages.create(**asked))
        if not sent.helper:
            return Got("".join(self.pieces(sent)))
        with messages.stream(**asked) as events:
            return _message(events.get_final_message())

    def open(self, sent: Sent) -> Any:
        return self.client.messages.create(**sent.common, max_tokens=64, stream=True)

    def pieces(self, sent: Sent) -> Iterator[str]:
        with self.open(sent) as events:
            yield from _event_texts(events)


class Ours:
    """`smartclient.Client`, in any of the formats."""

    package = "smartclient"
    own_errors = (smartclient.SmartClientError,)

    def __init__(self, where: Connected, api: ApiName) -> None:
        given: dict[str, Any] = {
            "timeout": _limits(where),
            "http_version": "2" if where.http2 else None,
            "max_retries": where.retries,
            "ca_file": where.ca_file,
        }
        options: dict[str, Any] = {k: value for k, value in given.items() if value is not None}
        self.api = api
        is_anthropic = api == _MESSAGES
        self.client = smartclient.Client(
            provider="anthropic" if is_anthropic else "openai",
            base_url=where.base_url + ("" if is_anthropic else "/v1"),
            api_key="sk-test",
            **options,
        )

    def ask(self, sent: Sent) -> Got:
        if sent.stream and not sent.helper:
            return Got("".join(self.pieces(sent)))
        create, asked = self._method(sent)
        if not sent.stream:
            return _READERS[self.api](create(**asked))
        path = "/v1/messages" if self.api == _MESSAGES else f"/v1/{self.api[7:]}"
        adapter = recognise("POST", path.replace("/chat", "/chat/completions"))
        assert adapter is not None
        whole = adapter.accumulator()
        with self.open(sent) as values:
            for value in values:
                whole.add(value)
        got = _READERS[self.api](whole.result())
        report = self.client.last_report
        counted = None if report is None else report.usage
        if counted is None:
            return Got(got.text, got.calls)
        return Got(
            got.text, got.calls, (counted.input_tokens, counted.cache_read or 0, counted.output)
        )

    def open(self, sent: Sent) -> Any:
        create, asked = self._method(sent)
        return create(**asked, stream=True)

    def pieces(self, sent: Sent) -> Iterator[str]:
        with self.open(sent) as values:
            yield from _TEXTS[self.api](values)

    def close(self) -> None:
        self.client.close()

    def _method(self, sent: Sent) -> tuple[Any, dict[str, Any]]:
        if self.api == _MESSAGES:
            return self.client.messages.create, sent.common | {"max_tokens": 64}
        if self.api == _RESPONSES:
            return self.client.responses.create, {"model": "any", "input": "hi"}
        counted = _COUNTED if sent.stream and sent.helper else {}
        return self.client.chat.completions.create, sent.common | counted


def _limits(where: Connected) -> float | smartclient.Timeout | None:
    limit = where.timeout
    if where.total is None or limit is None:
        return limit
    return smartclient.Timeout(
        connect=limit, read=limit, first_event=limit, idle=limit, total=where.total
    )


_COUNTED: dict[str, Any] = {"stream_options": {"include_usage": True}}


def _chunk_texts(chunks: Any) -> Iterator[str]:
    for chunk in chunks:
        if chunk.choices and (text := chunk.choices[0].delta.content):
            yield text


def _event_texts(events: Any) -> Iterator[str]:
    for event in events:
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            yield event.delta.text


def _response_texts(events: Any) -> Iterator[str]:
    for event in events:
        if event.type == "response.output_text.delta":
            yield event.delta


def _completion(completion: Any) -> Got:
    if completion is None or not completion.choices:
        return Got()
    message, usage = completion.choices[0].message, completion.usage
    calls = tuple(
        (str(call.function.name), _flat(call.function.arguments))
        for call in message.tool_calls or ()
    )
    return Got(message.content or "", calls, _openai_usage(usage, "prompt", "completion"))


def _response(response: Any) -> Got:
    texts = [
        part.text for item in response.output if item.type == "message" for part in item.content
    ]
    return Got("".join(texts), (), _openai_usage(response.usage, "input", "output"))


def _message(message: Any) -> Got:
    if message is None:
        return Got()
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = tuple(
        (block.name, _flat(block.input)) for block in message.content if block.type == "tool_use"
    )
    usage = message.usage
    if usage is None:
        return Got(text, calls)
    read = usage.cache_read_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    asked = usage.input_tokens
    total = None if asked is None else asked + read + written
    return Got(text, calls, (total, read, usage.output_tokens))


def _openai_usage(usage: Any, asked: str, answered: str) -> Any:
    if usage is None:
        return None
    details = getattr(usage, f"{asked}_tokens_details", None)
    read = (details.cached_tokens if details else 0) or 0
    return getattr(usage, f"{asked}_tokens"), read, getattr(usage, f"{answered}_tokens")


def _flat(arguments: Any) -> str:
    """Arguments as one writes them, when they are JSON."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(arguments)
    return json.dumps(value, separators=(",", ":"))


_TEXTS = {_CHAT: _chunk_texts, _MESSAGES: _event_texts, _RESPONSES: _response_texts}
_READERS = {_CHAT: _completion, _MESSAGES: _message, _RESPONSES: _response}
MAKERS: Mapping[ClientName, Any] = {"openai": OpenAI, "anthropic": Anthropic, "smartclient": Ours}
