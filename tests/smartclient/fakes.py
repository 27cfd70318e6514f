"""A provider of few lines, and the worlds, blocking and async, in which it is called."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any

import trio

from smartclient import AsyncClient, Client
from smartclient._call import Headers, Timeline, Trace
from smartclient._flow import sleep
from smartclient.testing import ManualClock, a_call
from smartclient.transports.driver import AsyncPerformer, Performer

__all__ = [
    "ASYNCIO",
    "BLOCKING",
    "CHAT",
    "DONE",
    "MESSAGE",
    "OVERLOAD",
    "RESPONSE",
    "START",
    "STOP",
    "TRIO",
    "Answer",
    "AsyncProvider",
    "Provider",
    "Watch",
    "World",
    "a_chunk",
    "a_stream",
    "an_event",
    "text",
]


# What providers say.


def an_event(kind: str, **fields: Any) -> bytes:
    """One event of an Anthropic stream."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def text(piece: str) -> bytes:
    """An event with a piece of text."""
    return an_event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})


def a_chunk(piece: str, *, finish: str | None = None) -> bytes:
    """One chunk of an OpenAI stream."""
    delta = {"role": "assistant", "content": piece}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "chat_1", "object": "chat.completion.chunk", "model": "tiny", "choices": [choice]}
    return f"data: {json.dumps(body)}\n\n".encode()


_HEAD = {"id": "msg_1", "type": "message", "role": "assistant", "model": "tiny", "content": []}
START = an_event(
    "message_start", message=_HEAD | {"usage": {"input_tokens": 9, "output_tokens": 1}}
) + an_event("content_block_start", index=0, content_block={"type": "text", "text": ""})
STOP = (
    an_event("content_block_stop", index=0)
    + an_event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})
    + an_event("message_stop")
)
OVERLOAD = an_event("error", error={"type": "overloaded_error", "message": "busy"})
DONE = b"data: [DONE]\n\n"
MESSAGE = json.dumps(
    _HEAD
    | {
        "content": [{"type": "text", "text": "Paris"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 2},
    }
).encode()
CHAT = json.dumps(
    {
        "id": "chat_1",
        "object": "chat.completion",
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Paris"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    }
).encode()
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "tiny",
    "error": None,
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Paris", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11},
}


class Answer:
    """A reply: each piece is what one read brings; an exception among them is raised."""

    def __init__(self, *pieces: bytes | BaseException, status: int = 200, **headers: str) -> None:
        self.pieces = pieces
        self.status, self.reason, self.protocol = status, "As You Like", "HTTP/1.1"
        headers = {"content_type": "application/json"} | headers
        self.headers = Headers((name.replace("_", "-"), value) for name, value in headers.items())


def a_stream(*pieces: bytes | BaseException, **headers: str) -> Answer:
    """A reply that is an event stream."""
    return Answer(*pieces, **{"content_type": "text/event-stream; charset=utf-8"} | headers)


# Connections that carry them.


def _given(answer: Any) -> Any:
    """`answer`, which is raised if it is an exception."""
    try:
        if isinstance(answer, BaseException):
            raise answer
        return answer
    finally:
        del answer  # an error whose traceback holds this frame would be a cycle


class FakeResponse:
    """What a connection gives, and what became of it."""

    def __init__(self, answer: Answer) -> None:
        self.status, self.reason = answer.status, answer.reason
        self.headers, self.protocol = answer.headers, answer.protocol
        self._pieces = deque(answer.pieces)
        self.num_reads = 0
        self.closed: list[bool] = []
        self.num_cuts = 0

    def _next(self) -> bytes:
        self.num_reads += 1
        return _given(self._pieces.popleft() if self._pieces else b"")

    def read(self) -> bytes:
        return self._next()

    def close(self, *, finished: bool = False) -> None:
        self.closed.append(finished)

    def cut(self) -> None:
        self.num_cuts += 1

    def abandon(self) -> None:
        self.num_cuts += 1


class AsyncFakeResponse(FakeResponse):
    async def read(self) -> bytes:
        return self._next()

    async def close(self, *, finished: bool = False) -> None:
        self.closed.append(finished)


class Provider:
    """Answers calls in the order given; an exception among the answers is raised.

    Attributes:
        calls: What it was asked.
        responses: What it gave.
    """

    response: type[FakeResponse] = FakeResponse

    def __init__(self, *answers: Answer | BaseException) -> None:
        self._answers = deque(answers)
        self.calls: list[Any] = []
        self.responses: list[Any] = []
        self.is_closed = False

    def _answer(self, call: Any) -> Any:
        self.calls.append(call)
        self.responses.append(self.response(_given(self._answers.popleft())))
        return self.responses[-1]

    def exchange(self, call: Any, timeline: Timeline) -> Any:
        return self._answer(call)

    def close(self) -> None:
        self.is_closed = True


class AsyncProvider(Provider):
    response = AsyncFakeResponse

    async def exchange(self, call: Any, timeline: Timeline) -> Any:
        return self._answer(call)

    async def close(self) -> None:
        self.is_closed = True


# The same test, blocking and awaiting.


class World:
    """Blocking code, or code under one async library: builds its objects and waits for them.

    Args:
        run: Runs an async function; `None` in the blocking world.
    """

    def __init__(self, run: Any = None) -> None:
        self._run = run
        self.is_async = run is not None

    def do(self, result: Any) -> Any:
        """The result of a method, waited for where it is a coroutine."""
        if not hasattr(result, "__await__"):
            return result

        async def waited() -> Any:
            return await result

        return self._run(waited)

    def all(self, stream: Any) -> list[Any]:
        """Everything that an iterator gives."""
        if not self.is_async:
            return list(stream)

        async def every() -> list[Any]:
            return [item async for item in stream]

        return self._run(every)

    def first(self, stream: Any) -> Any:
        """The next thing that an iterator gives."""
        return self.do(anext(aiter(stream))) if self.is_async else next(iter(stream))

    def enter(self, stream: Any) -> Any:
        """Enter a context."""
        return self.do(stream.__aenter__() if self.is_async else stream.__enter__())

    def exit(self, stream: Any) -> None:
        """Leave a context."""
        done = (None, None, None)
        self.do(stream.__aexit__(*done) if self.is_async else stream.__exit__(*done))

    def provider(self, *answers: Answer | BaseException) -> Provider:
        return AsyncProvider(*answers) if self.is_async else Provider(*answers)

    def performer(self, provider: Provider, **changes: Any) -> Any:
        """What runs flows over `provider`."""
        kind = AsyncPerformer if self.is_async else Performer
        return kind(
            provider,
            changes.get("trace", Trace(started=0.0)),
            changes.get("clock", ManualClock(0.0)),
            changes.get("leftovers", deque()),
        )

    def reply(self, answer: Answer, *, call: Any = None, taps: Any = (), **changes: Any) -> Any:
        """A reply whose handle is a body that brings `answer`, and its response."""
        provider = self.provider(answer)
        performer = self.performer(provider, **changes)
        reply = self.do(performer.exchange(call or a_call()))
        reply.taps.extend(taps)
        return reply, provider.responses[0]

    def client(self, *answers: Answer | BaseException, **options: Any) -> tuple[Any, Provider]:
        """One of our clients over a provider that gives `answers`."""
        kind = AsyncClient if self.is_async else Client
        options = {"api_key": "sk-test", "clock": ManualClock(0.0), "max_retries": 0} | options
        client = kind(**options)
        provider = self.provider(*answers)
        client._connections = provider
        return client, provider


def _in_asyncio(function: Any) -> Any:
    return asyncio.run(function())


BLOCKING, ASYNCIO, TRIO = World(), World(_in_asyncio), World(trio.run)


class Watch:
    """A tap that keeps how the body ended, once its last flow has run."""

    def __init__(self) -> None:
        self.outcomes = []

    def feed(self, delta, at): ...

    def comment(self, text): ...

    def after(self, outcome):
        yield from sleep(0.0)
        self.outcomes.append(outcome)
