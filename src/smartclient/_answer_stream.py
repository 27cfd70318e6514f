"""Answers that stream in: `with client.messages.stream(...) as stream:`, in each format.

The two sides have the same methods. What is a piece of text, and what the events add up to, the
format's adapter knows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ._stream import AsyncStream, Stream
from .report import CallReport

if TYPE_CHECKING:  # not needed to import: these types take time to build
    from .wire.anthropic_types import Message, MessageStreamEvent  # noqa: F401  # in quotes below
    from .wire.openai_responses_types import Response, ResponseStreamEvent  # noqa: F401  # likewise
    from .wire.openai_types import ChatCompletion, ChatCompletionChunk  # noqa: F401  # likewise

__all__ = [
    "AnswerStream",
    "AsyncAnswerStream",
    "AsyncChatCompletionStream",
    "AsyncMessageStream",
    "AsyncResponseStream",
    "ChatCompletionStream",
    "MessageStream",
    "ResponseStream",
]

EventT = TypeVar("EventT")


class AnswerStream(Generic[EventT]):
    """An answer that streams in. It is sent when the context is entered.

    Iterate it for events, or `text_stream` for text alone. What `Stream` raises while it is
    read, this does too.
    """

    def __init__(self, start: Callable[[], Stream[EventT]]) -> None:
        self._start = start
        self._entered: Stream[EventT] | None = None

    def __enter__(self) -> Self:
        self._entered = self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def __iter__(self) -> Iterator[EventT]:
        return self._stream

    @property
    def text_stream(self) -> Iterator[str]:
        """The text, piece by piece."""
        stream = self._stream
        return (text for event in stream if (text := stream._text(event)))

    def until_done(self) -> Self:
        """Read to the end."""
        for _ in self._stream:
            pass
        return self

    def get_final_text(self) -> str:
        """Read to the end; the text of the whole answer."""
        return self._stream._text(self._final())

    @property
    def request_id(self) -> str | None:
        """What to quote to the provider."""
        return self._stream.request_id

    @property
    def report(self) -> CallReport | None:
        """What happened to this call; `None` until the stream has ended."""
        return self._stream.report

    def close(self) -> None:
        """End it early."""
        self._stream.close()

    def _final(self) -> Any:
        self.until_done()
        return self._stream._whole()

    @property
    def _stream(self) -> Stream[EventT]:
        if self._entered is None:
            raise RuntimeError("nothing was sent yet: enter it first, with ... as stream:")
        return self._entered


class AsyncAnswerStream(Generic[EventT]):
    """An answer that streams in, awaited. It is sent when the context is entered.

    Iterate it for events, or `text_stream` for text alone.
    """

    def __init__(self, start: Callable[[], Awaitable[AsyncStream[EventT]]]) -> None:
        self._start = start
        self._entered: AsyncStream[EventT] | None = None

    async def __aenter__(self) -> Self:
        self._entered = await self._start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.close()

    def __aiter__(self) -> AsyncIterator[EventT]:
        return self._stream

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """The text, piece by piece."""
        return _TextPieces(self._stream)

    async def until_done(self) -> Self:
        """Read to the end."""
        async for _ in self._stream:
            pass
        return self

    async def get_final_text(self) -> str:
        """Read to the end; the text of the whole answer."""
        return self._stream._text(await self._final())

    @property
    def request_id(self) -> str | None:
        """What to quote to the provider."""
        return self._stream.request_id

    @property
    def report(self) -> CallReport | None:
        """What happened to this call; `None` until the stream has ended."""
        return self._stream.report

    async def close(self) -> None:
        """End it early."""
        await self._stream.close()

    aclose = close

    async def _final(self) -> Any:
        await self.until_done()
        return self._stream._whole()

    @property
    def _stream(self) -> AsyncStream[EventT]:
        if self._entered is None:
            raise RuntimeError("nothing was sent yet: enter it first, async with ... as stream:")
        return self._entered


class _TextPieces:
    # An iterator, not a generator: one that is dropped half-read leaves nothing to finalise.
    def __init__(self, stream: AsyncStream[Any]) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        while True:
            text = self._stream._text(await anext(self._stream))
            if text:
                return text


class MessageStream(AnswerStream["MessageStreamEvent"]):
    """A message that streams in; `with client.messages.stream(...) as stream:`."""

    def get_final_message(self) -> Message:
        """Read to the end; the whole message."""
        message: Message = self._final()
        return message

    @property
    def current_message(self) -> Message | None:
        """The message, as far as it has been read."""
        message: Message | None = self._stream._partial()
        return message


class AsyncMessageStream(AsyncAnswerStream["MessageStreamEvent"]):
    """A message that streams in; `async with client.messages.stream(...) as stream:`."""

    async def get_final_message(self) -> Message:
        """Read to the end; the whole message."""
        message: Message = await self._final()
        return message

    @property
    def current_message(self) -> Message | None:
        """The message, as far as it has been read."""
        message: Message | None = self._stream._partial()
        return message


class ChatCompletionStream(AnswerStream["ChatCompletionChunk"]):
    """A completion that streams in; `with client.chat.completions.stream(...) as stream:`.

    Its text is that of the first choice.
    """

    def get_final_completion(self) -> ChatCompletion:
        """Read to the end; the whole completion."""
        completion: ChatCompletion = self._final()
        return completion

    @property
    def current_completion(self) -> ChatCompletion | None:
        """The completion, as far as it has been read."""
        completion: ChatCompletion | None = self._stream._partial()
        return completion


class AsyncChatCompletionStream(AsyncAnswerStream["ChatCompletionChunk"]):
    """A completion that streams in; `async with client.chat.completions.stream(...) as stream:`."""

    async def get_final_completion(self) -> ChatCompletion:
        """Read to the end; the whole completion."""
        completion: ChatCompletion = await self._final()
        return completion

    @property
    def current_completion(self) -> ChatCompletion | None:
        """The completion, as far as it has been read."""
        completion: ChatCompletion | None = self._stream._partial()
        return completion


class ResponseStream(AnswerStream["ResponseStreamEvent"]):
    """A response that streams in; `with client.responses.stream(...) as stream:`."""

    def get_final_response(self) -> Response:
        """Read to the end; the whole response."""
        response: Response = self._final()
        return response

    @property
    def current_response(self) -> Response | None:
        """The response, as far as it has been read."""
        response: Response | None = self._stream._partial()
        return response


class AsyncResponseStream(AsyncAnswerStream["ResponseStreamEvent"]):
    """A response that streams in; `async with client.responses.stream(...) as stream:`."""

    async def get_final_response(self) -> Response:
        """Read to the end; the whole response."""
        response: Response = await self._final()
        return response

    @property
    def current_response(self) -> Response | None:
        """The response, as far as it has been read."""
        response: Response | None = self._stream._partial()
        return response
