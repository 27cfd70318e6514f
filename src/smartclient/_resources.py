"""What our own clients offer, by provider, in the shape of the providers' SDKs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from ._answer_stream import (
    AsyncChatCompletionStream,
    AsyncMessageStream,
    AsyncResponseStream,
    ChatCompletionStream,
    MessageStream,
    ResponseStream,
)
from ._params import (
    ChatParams,
    CountParams,
    MessageParams,
    ResponseCountParams,
    ResponseParams,
    hide_headers,
)
from ._stream import AsyncStream, Stream
from .wire.anthropic_types import Message, MessageStreamEvent, MessageTokensCount

if TYPE_CHECKING:  # not needed to import: these types take time to build
    from .client import AsyncClient, Client
    from .wire.openai_responses_types import InputTokensCount, Response, ResponseStreamEvent
    from .wire.openai_types import ChatCompletion, ChatCompletionChunk

__all__ = [
    "AsyncChat",
    "AsyncChatCompletions",
    "AsyncInputTokens",
    "AsyncMessages",
    "AsyncResponses",
    "Chat",
    "ChatCompletions",
    "InputTokens",
    "Messages",
    "Responses",
]

_MESSAGES, _COUNT = "/v1/messages", "/v1/messages/count_tokens"
_CHAT, _RESPONSES = "/chat/completions", "/responses"
_INPUT_TOKENS = "/responses/input_tokens"
_MESSAGE_NEEDS, _CHAT_NEEDS = ("model", "max_tokens", "messages"), ("model", "messages")
_RESPONSE_NEEDS = ("model", "input")


class Messages:
    """`client.messages`: Anthropic's Messages API."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @overload
    def create(
        self, *, stream: Literal[False] = False, **params: Unpack[MessageParams]
    ) -> Message: ...

    @overload
    def create(
        self, *, stream: Literal[True], **params: Unpack[MessageParams]
    ) -> Stream[MessageStreamEvent]: ...

    def create(self, *, stream: bool = False, **params: Any) -> Any:
        """Send messages; the answer is a `Message`, or with `stream=True` its events."""
        self._client._session.expect("anthropic", "messages")
        if stream:
            params["stream"] = True  # in place, as `split` hides what nobody may see
            return self._client._start(_MESSAGES, params, *_MESSAGE_NEEDS)
        return self._client._fetch(_MESSAGES, params, *_MESSAGE_NEEDS)

    def stream(self, **params: Unpack[MessageParams]) -> MessageStream:
        """Send messages when the context is entered; the answer streams in."""
        hide_headers(params)
        return MessageStream(lambda: self.create(stream=True, **params))

    def count_tokens(self, **params: Unpack[CountParams]) -> MessageTokensCount:
        """Ask the provider how many input tokens these messages are."""
        self._client._session.expect("anthropic", "messages")
        counted: MessageTokensCount = self._client._fetch(
            _COUNT, params, "model", "messages", kind=MessageTokensCount
        )
        return counted


class AsyncMessages:
    """`client.messages`: Anthropic's Messages API, awaited."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    @overload
    async def create(
        self, *, stream: Literal[False] = False, **params: Unpack[MessageParams]
    ) -> Message: ...

    @overload
    async def create(
        self, *, stream: Literal[True], **params: Unpack[MessageParams]
    ) -> AsyncStream[MessageStreamEvent]: ...

    async def create(self, *, stream: bool = False, **params: Any) -> Any:
        """Send messages; the answer is a `Message`, or with `stream=True` its events."""
        self._client._session.expect("anthropic", "messages")
        if stream:
            params["stream"] = True  # in place, as `split` hides what nobody may see
            return await self._client._start(_MESSAGES, params, *_MESSAGE_NEEDS)
        return await self._client._fetch(_MESSAGES, params, *_MESSAGE_NEEDS)

    def stream(self, **params: Unpack[MessageParams]) -> AsyncMessageStream:
        """Send messages when the context is entered; the answer streams in."""
        hide_headers(params)
        return AsyncMessageStream(lambda: self.create(stream=True, **params))

    async def count_tokens(self, **params: Unpack[CountParams]) -> MessageTokensCount:
        """Ask the provider how many input tokens these messages are."""
        self._client._session.expect("anthropic", "messages")
        counted: MessageTokensCount = await self._client._fetch(
            _COUNT, params, "model", "messages", kind=MessageTokensCount
        )
        return counted


class Chat:
    """`client.chat`: holds `completions`."""

    def __init__(self, client: Client) -> None:
        self.completions = ChatCompletions(client)


class AsyncChat:
    """`client.chat`: holds `completions`."""

    def __init__(self, client: AsyncClient) -> None:
        self.completions = AsyncChatCompletions(client)


class ChatCompletions:
    """`client.chat.completions`: OpenAI's Chat Completions API."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @overload
    def create(
        self, *, stream: Literal[False] = False, **params: Unpack[ChatParams]
    ) -> ChatCompletion: ...

    @overload
    def create(
        self, *, stream: Literal[True], **params: Unpack[ChatParams]
    ) -> Stream[ChatCompletionChunk]: ...

    def create(self, *, stream: bool = False, **params: Any) -> Any:
        """Send messages; the answer is a `ChatCompletion`, or with `stream=True` its chunks."""
        self._client._session.expect("openai", "chat.completions")
        if stream:
            params["stream"] = True  # in place, as `split` hides what nobody may see
            return self._client._start(_CHAT, params, *_CHAT_NEEDS)
        return self._client._fetch(_CHAT, params, *_CHAT_NEEDS)

    def stream(self, **params: Unpack[ChatParams]) -> ChatCompletionStream:
        """Send messages when the context is entered; the answer streams in."""
        hide_headers(params)
        return ChatCompletionStream(lambda: self.create(stream=True, **params))


class AsyncChatCompletions:
    """`client.chat.completions`: OpenAI's Chat Completions API, awaited."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    @overload
    async def create(
        self, *, stream: Literal[False] = False, **params: Unpack[ChatParams]
    ) -> ChatCompletion: ...

    @overload
    async def create(
        self, *, stream: Literal[True], **params: Unpack[ChatParams]
    ) -> AsyncStream[ChatCompletionChunk]: ...

    async def create(self, *, stream: bool = False, **params: Any) -> Any:
        """Send messages; the answer is a `ChatCompletion`, or with `stream=True` its chunks."""
        self._client._session.expect("openai", "chat.completions")
        if stream:
            params["stream"] = True  # in place, as `split` hides what nobody may see
            return await self._client._start(_CHAT, params, *_CHAT_NEEDS)
        return await self._client._fetch(_CHAT, params, *_CHAT_NEEDS)

    def stream(self, **params: Unpack[ChatParams]) -> AsyncChatCompletionStream:
        """Send messages when the context is entered; the answer streams in."""
        hide_headers(params)
        return AsyncChatCompletionStream(lambda: self.create(stream=True, **params))


class Responses:
    """`client.responses`: OpenAI's Responses API."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.input_tokens = InputTokens(client)

    @overload
    def create(
        self, *, stream: Literal[False] = False, **params: Unpack[ResponseParams]
    ) -> Response: ...

    @overload
    def create(
        self, *, stream: Literal[True], **params: Unpack[ResponseParams]
    ) -> Stream[ResponseStreamEvent]: ...

    def create(self, *, stream: bool = False, **params: Any) -> Any:
        """Send input; the answer is a `Response`, or with `stream=True` its events.

        The items of an answer's `output` can stand in the next call's `input`.
        """
        self._client._session.expect("openai", "responses")
        if stream:
            params["stream"] = True  # in place, as `split` hides what nobody may see
            return self._client._start(_RESPONSES, params, *_RESPONSE_NEEDS)
        return self._client._fetch(_RESPONSES, params, *_RESPONSE_NEEDS)

    def stream(self, **params: Unpack[ResponseParams]) -> ResponseStream:
        """Send input when the context is entered; the answer streams in."""
        hide_headers(params)
        return ResponseStream(lambda: self.create(stream=True, **params))


class AsyncResponses:
    """`client.responses`: OpenAI's Responses API, awaited."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.input_tokens = AsyncInputTokens(client)

    @overload
    async def create(
        self, *, stream: Literal[False] = False, **params: Unpack[ResponseParams]
    ) -> Response: ...

    @overload
    async def create(
        self, *, stream: Literal[True], **params: Unpack[ResponseParams]
    ) -> AsyncStream[ResponseStreamEvent]: ...

    async def create(self, *, stream: bool = False, **params: Any) -> Any:
        """Send input; the answer is a `Response`, or with `stream=True` its events.

        The items of an answer's `output` can stand in the next call's `input`.
        """
        self._client._session.expect("openai", "responses")
        if stream:
            params |= {"stream": True}
            return await self._client._start(_RESPONSES, params, *_RESPONSE_NEEDS)
        return await self._client._fetch(_RESPONSES, params, *_RESPONSE_NEEDS)

    def stream(self, **params: Unpack[ResponseParams]) -> AsyncResponseStream:
        """Send input when the context is entered; the answer streams in."""
        hide_headers(params)
        return AsyncResponseStream(lambda: self.create(stream=True, **params))


class InputTokens:
    """`client.responses.input_tokens`: counting, by OpenAI itself."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def count(self, **params: Unpack[ResponseCountParams]) -> InputTokensCount:
        """Ask the provider how many input tokens a response to this would have."""
        from .wire.openai_responses_types import InputTokensCount

        self._client._session.expect("openai", "responses")
        counted: InputTokensCount = self._client._fetch(
            _INPUT_TOKENS, params, "model", kind=InputTokensCount
        )
        return counted


class AsyncInputTokens:
    """`client.responses.input_tokens`: counting, by OpenAI itself, awaited."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def count(self, **params: Unpack[ResponseCountParams]) -> InputTokensCount:
        """Ask the provider how many input tokens a response to this would have."""
        from .wire.openai_responses_types import InputTokensCount

        self._client._session.expect("openai", "responses")
        counted: InputTokensCount = await self._client._fetch(
            _INPUT_TOKENS, params, "model", kind=InputTokensCount
        )
        return counted
