"""HTTP/2 for threads: one loop in the background, shared by all of them.

A connection of streams has one reader, which threads could only be by turns. So there is one
thread for it, and whoever calls waits for its own call. It starts with the first one, is a
daemon, and begins anew in a forked child.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import msgspec

from .._call import Call, Timeline
from .._clock import Clock
from . import aio, failures
from .aio_response import Response
from .options import NetOptions
from .pool import Counts

__all__ = [
    "CLOSE_TIME",
    "Background",
    "BackgroundConnections",
    "BackgroundResponse",
    "close_idle",
    "counts",
]

T = TypeVar("T")

CLOSE_TIME = 1.0
"""Most seconds that the end of the process, or of what is idle, waits for the background."""


class Background:
    """A loop that runs in a thread of its own.

    Attributes:
        is_inherited: This is a forked child, and the thread is the parent's.
        is_ending: Nobody is told any more what becomes of his call.
    """

    def __init__(self) -> None:
        self.is_inherited = self.is_ending = False
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="smartclient-http2", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        loop = self.loop
        try:
            loop.run_forever()
        finally:
            self.is_ending = True
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(loop.shutdown_asyncgens())  # closes the connections
            loop.close()

    def run(self, start: Callable[[_Desk], Coroutine[Any, Any, T]], *, timeout: float = -1) -> T:
        """Run a coroutine there, and wait; interrupted, it is cancelled.

        Raises:
            TimeoutError: It took longer than `timeout` seconds.
        """
        if self.is_inherited:
            raise RuntimeError(
                "this reply was begun before the process forked; read it there, or call again here"
            )
        desk = _Desk(self)
        try:
            self.loop.call_soon_threadsafe(desk.begin, start)
            outcome: asyncio.Task[T] = desk.wait(timeout)
        except BaseException:
            self.tell(desk.cancel)
            raise
        try:
            return outcome.result()
        finally:
            del outcome  # it has the error, whose traceback has this frame

    def start(self, coroutine: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Have a coroutine run there, soon; never blocks, never raises."""
        self.tell(lambda: self.loop.create_task(coroutine()))

    def tell(self, what: Callable[[], object]) -> None:
        """Have something done there, soon; never blocks, never raises."""
        if not self.is_inherited:
            with suppress(RuntimeError):  # the loop is closed, and its sockets too
                self.loop.call_soon_threadsafe(what)

    def stop(self) -> None:
        """End the thread and close its connections, in bounded time."""
        self.tell(self.loop.stop)
        self._thread.join(CLOSE_TIME)


class _Desk:
    """Where a thread waits for its coroutine, and does for it what only the thread can do."""

    def __init__(self, background: Background) -> None:
        self._background, self._loop = background, background.loop
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    def begin(self, start: Callable[[_Desk], Coroutine[Any, Any, Any]]) -> None:
        if not self._is_cancelled:
            self._task = self._loop.create_task(start(self))
            self._task.add_done_callback(self._tell)

    def _tell(self, task: asyncio.Task[Any]) -> None:
        self._task = None  # it may have an error, whose traceback has this desk
        # A daemon's thread stays where it is when the process ends, as with any socket.
        if not self._background.is_ending:
            self._inbox.put(task)

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def wait(self, timeout: float) -> asyncio.Task[Any]:
        """Serve the coroutine until it has ended."""
        while True:
            try:
                asked = self._inbox.get(timeout=None if timeout < 0 else timeout)
            except Empty:
                raise TimeoutError from None
            if isinstance(asked, asyncio.Task):
                return asked
            pieces, future = asked
            try:
                found, problem = next(pieces, None), None
            except Exception as error:  # the caller's, which comes back to him by the coroutine
                found, problem = None, error
            self._loop.call_soon_threadsafe(_answer, future, found, problem)

    def pieces(self, body: Iterator[bytes]) -> AsyncIterator[bytes]:
        """A body whose pieces are made by the thread that waits here."""
        return _Pieces(self._loop, self._inbox, body)


class _Pieces:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, inbox: SimpleQueue[Any], body: Iterator[bytes]
    ) -> None:
        self._loop, self._inbox, self._body = loop, inbox, body

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        future: asyncio.Future[bytes | None] = self._loop.create_future()
        self._inbox.put((self._body, future))
        piece = await future
        if piece is None:
            raise StopAsyncIteration
        return piece


def _answer(future: asyncio.Future[Any], found: Any, problem: Exception | None) -> None:
    if future.done():
        return  # cancelled meanwhile
    if problem is None:
        future.set_result(found)
    else:
        future.set_exception(problem)


class _Running:
    """The background of this process."""

    lock = threading.Lock()
    background: Background | None = None
    inherited: list[Background] = []  # noqa: RUF012  # kept: their end would reach the parent's

    @classmethod
    def get(cls) -> Background:
        with cls.lock:
            if cls.background is None:
                cls.background = Background()
            return cls.background

    @classmethod
    def forget(cls) -> None:
        """In a forked child, where its thread is not."""
        cls.lock = threading.Lock()
        if cls.background is not None:
            cls.background.is_inherited = True
            cls.inherited.append(cls.background)
            cls.background = None

    @classmethod
    def stop(cls) -> None:
        background, cls.background = cls.background, None
        if background is not None:
            background.stop()


os.register_at_fork(after_in_child=_Running.forget)
atexit.register(_Running.stop)


def counts() -> Counts:
    """The background's connections and calls."""

    async def count(desk: _Desk) -> Counts:
        return aio.counts()

    return _Running.background.run(count) if _Running.background is not None else Counts()


def close_idle() -> None:
    """Close every idle connection of the background."""

    async def close(desk: _Desk) -> None:
        aio.close_idle()

    if _Running.background is not None:
        _Running.background.run(close, timeout=CLOSE_TIME)


class BackgroundConnections:
    """A client's way to the connections of the background; safe to use from many threads."""

    __slots__ = ("_connections", "_is_closed")

    def __init__(self, options: NetOptions, clock: Clock) -> None:
        self._connections = aio.AsyncConnections(options, clock)
        self._is_closed = False

    def exchange(self, call: Call, timeline: Timeline) -> BackgroundResponse:
        """Send `call`, as `AsyncConnections` does."""
        if self._is_closed:
            raise failures.client_closed()
        background = _Running.get()

        async def exchange(desk: _Desk) -> BackgroundResponse:
            sent = call
            if not isinstance(call.body, (bytes, bytearray)):
                sent = msgspec.structs.replace(call, body=desk.pieces(iter(call.body)))
            response = await self._connections.exchange(sent, timeline)
            # A short reply is often here already: then nobody need come back for it.
            whole = await response.read() if response.is_here else None
            return BackgroundResponse(background, response, whole)

        return background.run(exchange)

    def prewarm(self, call: Call, number: int) -> int:
        """Open connections, as `AsyncConnections` does."""

        async def prewarm(desk: _Desk) -> int:
            return await self._connections.prewarm(call, number)

        return _Running.get().run(prewarm)

    def close(self) -> None:
        """Have this client's streams cut, and refuse further calls; never blocks, never raises.

        A finalizer may call it anywhere, so nobody waits: whoever asks the background for
        something after this is answered after it.
        """
        self._is_closed = True
        background = _Running.background
        if background is not None:
            background.start(self._connections.close)


class BackgroundResponse:
    """A reply that comes in the background, and is read here."""

    __slots__ = (
        "__weakref__",
        "_background",
        "_response",
        "_rest",
        "headers",
        "protocol",
        "reason",
        "status",
    )

    def __init__(self, background: Background, response: Response, whole: bytes | None) -> None:
        self._background, self._response = background, response
        self._rest = whole  # of the body, once all of it has come
        self.status, self.reason = response.status, response.reason
        self.headers, self.protocol = response.headers, response.protocol

    def read(self) -> bytes:
        """The next bytes of the body as they came; `b""` at its end."""

        rest = self._rest
        if rest is not None:
            self._rest = b""
            return rest

        async def read(desk: _Desk) -> tuple[bytes, bool]:
            return await self._response.read(), self._response.is_here

        data, is_last = self._background.run(read)
        if is_last:
            self._rest = b""
        return data

    def close(self, *, finished: bool = False) -> None:
        """Be done with the body; never blocks, because a finalizer may call it anywhere."""
        if self._rest is None:
            if finished:
                self._response._note_end()
            self._background.start(partial(self._response.close, finished=finished))

    def cut(self) -> None:
        """Drop the body and its stream at once; never blocks, never raises."""
        self._background.tell(self._response.cut)

    def abandon(self) -> None:
        """Cut for a finalizer, which may run in any thread."""
        self._response.abandon()
