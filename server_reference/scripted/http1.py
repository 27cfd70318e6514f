"""HTTP/1.1 for the scripted server: parses requests, and plays scripts byte by byte.

A write is a `send` of its own, with TCP_NODELAY: what one `Body` holds leaves in one piece.
Whatever a client sends, it is answered with 400 and a close at worst.

Source: RFC 9112 (framing, keep-alive, pipelining).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import httptools

from .framing import Framing
from .hooks import Connection, How, Service
from .ops import Body, End, Head, Op, Raw, Script
from .playing import Playable, each, linger, perform
from .request import Received

__all__ = ["MAX_HEAD_BYTES", "Http1"]

MAX_HEAD_BYTES = 128 * 1024
_MOST_WAITING = 64
_MOST_AT_ONCE = 256 * 1024
_BYTES = (Head, Body, Raw, End)


@dataclass(slots=True)
class _Asked:
    """A request that waits for its reply."""

    received: Received
    version: str
    keeps_alive: bool


class Http1(asyncio.Protocol):
    """One connection.

    Args:
        max_body_bytes: A larger request is answered with 413.
    """

    def __init__(
        self,
        connection: Connection,
        service: Service,
        *,
        max_body_bytes: int = 64 * 2**20,
    ) -> None:
        self._connection = connection
        self._service = service
        self._max_body_bytes = max_body_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[_Asked] = deque()
        self._playing: _Asked | None = None
        self._task: asyncio.Task[None] | None = None
        self._pending: list[tuple[Op, bytes]] = []
        self._reason: str | None = None
        self._refusal: tuple[int, str] | None = None
        self._is_deaf = False
        self._is_head_too_large = False
        self._silent_bytes = 0  # since a body's bytes or a message's end
        self.on_message_begin()

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._writable = asyncio.Event()
        self._writable.set()
        # Paused means: something is still here. Under TLS a limit is reached, not passed.
        is_tls = transport.get_extra_info("ssl_object") is not None
        transport.set_write_buffer_limits(high=int(is_tls), low=0)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self._silent_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._is_deaf = True
            if self._waiting:
                self._waiting[-1].keeps_alive = False
        except httptools.HttpParserCallbackError:
            raise  # our own mistake, and not the client's
        except httptools.HttpParserError:
            self._refuse(400, "Bad Request")
        else:
            if self._is_head_too_large or self._silent_bytes > MAX_HEAD_BYTES:
                self._refuse(431, "Request Header Fields Too Large")
            elif self._num_body_bytes > self._max_body_bytes:
                self._refuse(413, "Content Too Large")
        self._next()

    def eof_received(self) -> bool:
        return False  # who has closed reads no reply

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_deaf = True
        if self._task is not None:
            self._task.cancel()
        stopped = self._service.is_stopping
        for asked in (self._playing, *self._waiting):
            if asked is not None:
                self._service.ended(asked.received, "stopped" if stopped else "abandoned")
        self._playing = None
        self._waiting.clear()
        reason = "client reset" if isinstance(error, ConnectionResetError) else "client"
        reason = self._reason or ("bad request" if self._refusal else reason)
        self._service.closed(self._connection, "stopped" if stopped else reason)

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._num_body_bytes = 0
        self._num_head_bytes = 0
        self._is_in_head = True

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if self._is_in_head:  # what comes later is a trailer, and no part of the head
            self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        expect = next((value for name, value in self._headers if name == "expect"), "")
        is_new = self._parser.get_http_version() == "1.1"
        if expect.lower() == "100-continue" and is_new and self._is_free() and not self._waiting:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        self._silent_bytes = 0
        self._num_body_bytes += len(data)
        if self._num_body_bytes <= self._max_body_bytes:
            self._body.append(data)

    def on_message_complete(self) -> None:
        self._silent_bytes = 0
        if self._num_body_bytes > self._max_body_bytes or self._is_head_too_large:
            return
        received = self._service.receive(
            self._connection,
            self._parser.get_method().decode("latin-1"),
            _origin_form(self._url.decode("latin-1")),
            self._headers,
            b"".join(self._body),
        )
        version = self._parser.get_http_version()
        self._waiting.append(_Asked(received, version, self._parser.should_keep_alive()))
        if len(self._waiting) > _MOST_WAITING:
            self._transport.pause_reading()

    def _count(self, num_bytes: int) -> None:
        """Note bytes of the head; trailers are counted with it."""
        self._num_head_bytes += num_bytes
        self._is_head_too_large = self._is_head_too_large or self._num_head_bytes > MAX_HEAD_BYTES

    # Playing.

    def _next(self) -> None:
        while self._is_free():
            if not self._waiting:
                self._say_no()
                return
            self._playing = asked = self._waiting.popleft()
            if len(self._waiting) == _MOST_WAITING:
                self._transport.resume_reading()
            script = self._service.script(asked.received)
            framing = Framing(asked.received.method, asked.version, keeps_alive=asked.keeps_alive)
            if not (isinstance(script, Sequence) and self._is_plain(script)):
                self._start(self._play(script, framing))
                return
            for op in script:
                self._put(op, framing)
            self._flush()
            if not self._writable.is_set():
                self._start(self._drain(framing))
                return
            self._finish(framing)

    def _is_free(self) -> bool:
        """Whether nothing is being answered, and something may be."""
        is_idle = self._playing is None and self._task is None
        return is_idle and self._reason is None and not self._transport.is_closing()

    def _is_plain(self, script: Script) -> bool:
        """Whether nothing in it needs to wait, and all of it can leave now."""
        if not (self._writable.is_set() and script and type(script[-1]) is End):
            return False
        num_bytes = 0
        for op in script:
            if type(op) is Body or type(op) is Raw:
                num_bytes += len(op.data)
            elif type(op) not in _BYTES:
                return False
        return num_bytes <= _MOST_AT_ONCE

    def _start(self, playing: Awaitable[None]) -> None:
        self._task = asyncio.ensure_future(playing)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled() and (self._playing is None or self._service.is_stopping):
            return
        cancelled = RuntimeError("its function cancelled itself")
        if (error := cancelled if task.cancelled() else task.exception()) is not None:
            if self._playing is not None:
                self._service.broke(self._playing.received, error)
            self._transport.abort()
        self._next()

    async def _play(self, script: Playable, framing: Framing) -> None:
        async with contextlib.aclosing(each(script, self._flush)) as ops:
            async for op in ops:
                if self._transport.is_closing():
                    return
                await self._perform(op, framing)
        self._flush()
        await self._writable.wait()
        if not framing.has_ended:
            await asyncio.Event().wait()  # a script without an end hangs
        self._finish(framing)

    async def _drain(self, framing: Framing) -> None:
        """Finish a reply once all of it has left."""
        await self._writable.wait()
        self._finish(framing)

    async def _perform(self, op: Op, framing: Framing) -> None:
        if isinstance(op, _BYTES):
            self._put(op, framing)
            await self._writable.wait()
            return
        self._flush()
        await self._writable.wait()
        if self._playing is not None:
            self._service.wrote(self._playing.received, op, 0)
        await perform(
            op,
            self._transport,
            self._service.clock,
            lambda reason: self._close(framing, reason),
        )

    def _put(self, op: Op, framing: Framing) -> None:
        """Queue `op`'s bytes; a body's write goes before the next one begins."""
        if type(op) is Body and any(type(other) is Body for other, _ in self._pending):
            self._flush()
        self._pending.append((op, framing.encode(op)))

    def _flush(self) -> None:
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        if self._transport.is_closing():
            return  # asyncio logs each write to a connection that is lost
        if self._playing is not None:  # told before the client can act on what it reads
            for op, data in pending:
                self._service.wrote(self._playing.received, op, len(data))
        self._transport.write(b"".join([data for _, data in pending]))

    def _close(self, framing: Framing, reason: str) -> None:
        """The script closes the connection: nothing more is read or answered."""
        self._reason = reason
        self._is_deaf = True
        if self._playing is not None:
            self._end("complete" if framing.has_ended else "cut")

    def _finish(self, framing: Framing) -> None:
        if self._transport.is_closing():
            return  # the connection was lost, and that is what ended the reply
        self._end("complete")
        if framing.closes and self._reason is None:
            self._reason = "server"
            self._transport.close()

    def _end(self, how: How) -> None:
        asked, self._playing = self._playing, None
        if asked is not None:
            self._service.ended(asked.received, how)

    def _refuse(self, status: int, reason: str) -> None:
        """Read no more; what came before is answered first."""
        self._is_deaf = True
        self._refusal = status, reason

    def _say_no(self) -> None:
        """Answer what is no request, and close."""
        if self._refusal is None:
            return
        status, reason = self._refusal
        self._reason = "bad request"
        text = reason.encode()
        head = f"HTTP/1.1 {status} {reason}\r\ncontent-length: {len(text)}\r\n"
        self._transport.write(head.encode() + b"connection: close\r\n\r\n" + text)
        linger(self._transport)


def _origin_form(target: str) -> str:
    """A proxy's absolute form as the path and query that it holds."""
    if not target[:8].lower().startswith(("http://", "https://")):
        return target
    _, _, rest = target.partition("://")
    _, slash, path = rest.partition("/")
    return slash + path or "/"
