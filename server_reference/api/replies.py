"""Carry one event stream to an HTTP client, whole or as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Receive, Send

from .chat import ChatRequest
from .events import (
    ArgumentsDelta,
    Event,
    Failed,
    Finished,
    Started,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from .record import CallRecord
from .wire import Answer, StreamWriter, WireFormat

__all__ = ["StreamTimes", "collect", "send_json", "send_stream", "unless_disconnected"]

_Events = AsyncGenerator[Event, None]

_SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTimes:
    """When a stream shows life although no token came.

    Args:
        headers_after: Seconds after which the headers leave without a first token.
        ping_after: Seconds of silence after which a ping is sent.
    """

    headers_after: float = 2.0
    ping_after: float = 15.0


async def unless_disconnected(receive: Receive, work: Coroutine[None, None, None]) -> bool:
    """Do `work`, and cancel it when the client goes away first. The body must be read.

    Returns:
        Whether it was done.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
        is_done = working.done()
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.wait([working, watching])
    if is_done:
        working.result()
    return is_done


async def _disconnect(receive: Receive) -> None:
    # Emptied all the time: a full queue would keep the server from seeing the end.
    while (await receive())["type"] != "http.disconnect":
        continue


async def collect(events: _Events) -> Answer:
    """Wait for a whole event stream.

    Raises:
        ApiError: It failed.
    """
    answer = Answer()
    async with aclosing(events):
        async for event in events:
            answer.take(event)
    return answer


async def send_json(send: Send, body: bytes) -> None:
    """A reply of 200 whose body is `body`."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_stream(
    send: Send,
    events: _Events,
    *,
    wire: WireFormat,
    request: ChatRequest,
    record: CallRecord,
    times: StreamTimes = StreamTimes(),
) -> None:
    """Send `events` as they come.

    The headers leave with the first token, or after `times.headers_after`; a failure before
    that is an ordinary error reply, and a failure after it is the stream's last event.

    Raises:
        ApiError: It failed before the headers left.
    """
    stream = _Stream(send, wire.writer(request, record.id), record, num_answers=request.n)
    alive = asyncio.create_task(stream.keep_alive(times))
    try:
        async with aclosing(events):
            async for event in events:
                await stream.put(event)
    finally:
        alive.cancel()
        await asyncio.wait([alive])
    await stream.close()


class _Stream:
    """The reply's bytes, written by the events' reader and by the keeper, one at a time."""

    def __init__(
        self, send: Send, writer: StreamWriter, record: CallRecord, *, num_answers: int
    ) -> None:
        self._send = send
        self._writer = writer
        self._record = record
        self._lock = asyncio.Lock()
        self._is_open = False
        self._written_at = 0.0
        self._num_unfinished = num_answers

    async def put(self, event: Event) -> None:
        match event:
            case Started():
                await self._write(self._writer.started(event))
            case TextDelta():
                await self._write(self._writer.text(event))
            case ToolCallStarted() | ArgumentsDelta() | ToolCallFinished():
                await self._write(self._writer.tool_call(event))
            case Finished():
                self._num_unfinished -= 1
                last = self._writer.finished(event)
                await self._write(last if self._num_unfinished else last + self._end())
            case Failed():
                async with self._lock:  # the headers may be leaving just now
                    is_open = self._is_open
                if not is_open:
                    raise event.error
                await self._write(self._writer.failed(event.error))

    def _end(self) -> bytes:
        timing = self._record.server_timing()
        comment = f": server-timing {timing}\n\n".encode() if timing else b""
        return comment + self._writer.end()

    async def keep_alive(self, times: StreamTimes) -> None:
        """Open the stream when no token comes, and ping whenever it is silent."""
        await asyncio.sleep(times.headers_after)
        if not self._is_open:
            await self._write(self._writer.ping())
        while True:
            silent = asyncio.get_running_loop().time() - self._written_at
            if silent >= times.ping_after:
                await self._write(self._writer.ping())
            else:
                await asyncio.sleep(times.ping_after - silent)

    async def close(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, data: bytes) -> None:
        if not data:
            return
        async with self._lock:
            if not self._is_open:
                self._is_open = True
                start = {"type": "http.response.start", "status": 200, "headers": _SSE_HEADERS}
                await self._send(start)
            self._written_at = asyncio.get_running_loop().time()
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
