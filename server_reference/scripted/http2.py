"""HTTP/2 for the scripted server: plays scripts frame by frame, each stream on its own.

A `Body` is one DATA frame and one segment as far as the client's windows and frame size allow;
then it goes on when the client grants more. Whatever a client sends, the answer is a GOAWAY
and a close at worst.

Source: RFC 9113 (streams, flow control, errors).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping, Sequence

from .hooks import Connection, How, Service
from .http2_frames import reply_fields, request_parts
from .http2_stream import Stream
from .http2_wire import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ProtocolError,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
    Wire,
)
from .ops import Body, End, GoAway, Head, Op, ResetStream, Script, Settings, Starve
from .playing import Playable, each, linger, perform

__all__ = ["Http2"]

_log = logging.getLogger(__name__)

_FRAMES = (Head, Body, End, ResetStream, GoAway, Settings)
_MOST_UNSENT = 2**20
_MOST_AT_ONCE = 256 * 1024
_NO_ERROR, _REFUSED_STREAM = 0, 7
_TOO_LARGE = ((b":status", b"413"), (b"content-length", b"0"))


class Http2(asyncio.Protocol):
    """One connection.

    Args:
        max_body_bytes: A larger request is answered with 413.
        settings: Sent at the start, by name, over 100 concurrent streams and no more.
    """

    def __init__(
        self,
        connection: Connection,
        service: Service,
        *,
        max_body_bytes: int = 64 * 2**20,
        settings: Mapping[str, int] | None = None,
    ) -> None:
        self._connection = connection
        self._service = service
        self._max_body_bytes = max_body_bytes
        self._wire = Wire(settings or {})
        self._streams: dict[int, Stream] = {}
        self._lost: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._performed: list[tuple[Stream, Op, int]] = []
        self._reason: str | None = None
        self._is_deaf = False

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._writable = asyncio.Event()
        self._writable.set()
        # Paused means: something is still here. Under TLS a limit is reached, not passed.
        is_tls = transport.get_extra_info("ssl_object") is not None
        transport.set_write_buffer_limits(high=int(is_tls), low=0)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        try:
            events = self._wire.receive(data)
        except ProtocolError as error:
            self._refuse(error)
            return
        self._lost = {one.stream_id for one in events if isinstance(one, StreamReset)}
        if any(isinstance(one, ConnectionTerminated) for one in events):
            self._is_deaf = True  # nothing more may be sent
        for event in events:
            self._take(event)
        self._flush()
        if self._transport.get_write_buffer_size() > _MOST_UNSENT:
            self._transport.pause_reading()  # who reads nothing is answered nothing more

    def eof_received(self) -> bool:
        return False  # who has closed reads no reply

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_deaf = True
        by_client = "client reset" if isinstance(error, ConnectionResetError) else "client"
        reason = "stopped" if self._service.is_stopping else self._reason or by_client
        self._end_all("stopped" if self._service.is_stopping else "abandoned")
        for task in self._tasks:
            task.cancel()
        self._service.closed(self._connection, reason)

    def _refuse(self, error: Exception) -> None:
        """Say GOAWAY to what is no HTTP/2, and close."""
        _log.debug("connection %d broke HTTP/2: %s", self._connection.number, error)
        self._is_deaf = True
        self._reason = "bad request"
        self._flush()
        self._end_all("abandoned")
        linger(self._transport)

    # What comes.

    def _take(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._begin(event)
            case DataReceived():
                self._collect(event)
            case StreamEnded():
                if (stream := self._streams.get(event.stream_id)) is not None:
                    self._answer(stream)
            case StreamReset():
                if (stream := self._streams.get(event.stream_id)) is not None:
                    self._connection.num_resets += 1
                    self._break_off(stream, "abandoned")
            case WindowUpdated(stream_id=number) if number:
                if (stream := self._streams.get(number)) is not None:
                    stream.credit.set()
            case WindowUpdated() | RemoteSettingsChanged():
                for stream in self._streams.values():
                    stream.credit.set()
            case ConnectionTerminated():
                self._transport.close()
            case _:
                pass

    def _begin(self, event: RequestReceived) -> None:
        number = event.stream_id
        if not self._wire.is_taken(number):
            return  # it was told so
        is_lost = self._is_deaf or number in self._lost
        if sum(not one.has_ended for one in self._streams.values()) >= self._wire.max_streams:
            if not is_lost:
                self._wire.reset(number, _REFUSED_STREAM)
            return
        method, target, headers = request_parts(event.headers or [])
        self._streams[number] = Stream(number, method, target, headers)
        if ("expect", "100-continue") in headers and not (event.stream_ended or is_lost):
            self._wire.send_head(number, [(b":status", b"100")])

    def _collect(self, event: DataReceived) -> None:
        if not self._is_deaf:
            self._wire.acknowledge(event)
        stream = self._streams.get(event.stream_id)
        if stream is None or stream.received is not None:
            return
        if stream.collect(event.data or b"", self._max_body_bytes):
            return
        del self._streams[event.stream_id]
        if not (self._is_deaf or event.stream_id in self._lost):
            self._wire.send_head(event.stream_id, _TOO_LARGE, ends=True)
            self._wire.reset(event.stream_id, _NO_ERROR)

    def _answer(self, stream: Stream) -> None:
        stream.received = received = self._service.receive(
            self._connection,
            stream.method,
            stream.target,
            stream.headers,
            stream.take_body(),
            stream.number,
        )
        if self._is_deaf or stream.number in self._lost:
            return  # its end is among what came with it
        script = self._service.script(received)
        if not (isinstance(script, Sequence) and self._is_plain(stream, script)):
            self._start(stream, self._play(stream, script))
            return
        self._flush()
        for op in script:
            self._put(stream, op)
        self._flush()
        if self._writable.is_set():
            self._leave(stream)
        else:
            self._start(stream, self._drain(stream))

    def _is_plain(self, stream: Stream, script: Script) -> bool:
        """Whether nothing in it needs to wait, and all of it can leave now."""
        if len(script) < 2 or type(script[0]) is not Head or type(script[-1]) is not End:
            return False
        bodies = [op.data for op in script[1:-1] if isinstance(op, Body)]
        return (
            script[0].status >= 200
            and len(bodies) == len(script) - 2
            and self._writable.is_set()
            and sum(map(len, bodies)) <= min(_MOST_AT_ONCE, self._wire.window(stream.number))
        )

    # Playing.

    def _start(self, stream: Stream, playing: Coroutine[None, None, None]) -> None:
        stream.task = task = asyncio.ensure_future(playing)
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._done(stream, task))

    def _done(self, stream: Stream, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() and (stream.number not in self._streams or self._service.is_stopping):
            return
        cancelled = RuntimeError("its function cancelled itself")
        if (error := cancelled if task.cancelled() else task.exception()) is None:
            return
        if stream.received is not None:
            self._service.broke(stream.received, error)
        self._transport.abort()

    async def _play(self, stream: Stream, script: Playable) -> None:
        async with contextlib.aclosing(each(script, self._flush)) as ops:
            async for op in ops:
                if self._transport.is_closing():
                    return
                if isinstance(op, Body):
                    await self._send(stream, op)
                elif isinstance(op, _FRAMES):
                    self._put(stream, op)
                else:
                    self._flush()
                    await self._perform(stream, op)
        self._flush()
        if not (stream.has_ended or stream.is_reset):
            await asyncio.Event().wait()  # a script without an end hangs
        await self._writable.wait()
        self._leave(stream)

    async def _drain(self, stream: Stream) -> None:
        """Finish a reply once all of it has left."""
        await self._writable.wait()
        self._leave(stream)

    async def _send(self, stream: Stream, op: Body) -> None:
        """One DATA frame, or as many as the client's windows and frame size make of it."""
        self._before_body(stream)
        if not self._writable.is_set():
            self._flush()
            await self._writable.wait()
        left, size = memoryview(op.data), 0
        while True:
            before = self._wire.mark()
            wrote = self._write(stream, left)
            size += self._wire.mark() - before
            left = left[wrote:]
            if not left:
                break
            if not wrote:
                self._flush()
                stream.credit.clear()
                await stream.credit.wait()
        self._performed.append((stream, op, size))

    async def _perform(self, stream: Stream, op: Op) -> None:
        await self._writable.wait()
        if stream.received is not None:
            self._service.wrote(stream.received, op, 0)
        if isinstance(op, Starve):
            self._wire.is_starving = True
        await perform(
            op, self._transport, self._service.clock, lambda reason: self._close(stream, reason)
        )

    def _put(self, stream: Stream, op: Op) -> None:
        """Queue the frames of `op`; a body's frame goes before the next one begins."""
        if isinstance(op, Body):
            self._before_body(stream)
        before = self._wire.mark()
        match op:
            case Head():
                self._wire.send_head(stream.number, reply_fields(op))
                stream.began(op)
            case Body(data):
                left = memoryview(data)
                left = left[self._write(stream, left) :]
                while left:
                    left = left[self._write(stream, left) :]
            case End():
                if not stream.has_ended:
                    self._wire.end(stream.number)
                stream.has_ended = True
            case ResetStream(code):
                self._wire.reset(stream.number, code)
                stream.is_reset = True
            case GoAway(last_stream_id, code):
                self._wire.go_away(last_stream_id, code)
            case Settings(values):
                self._wire.announce(values)
            case _:
                raise AssertionError("unreachable")
        self._performed.append((stream, op, self._wire.mark() - before))

    def _before_body(self, stream: Stream) -> None:
        if any(one is stream and type(op) is Body for one, op, _ in self._performed):
            self._flush()

    def _write(self, stream: Stream, data: memoryview) -> int:
        """How much of `data` could be queued as one frame."""
        if not stream.has_body:
            return len(data)
        if stream.has_ended:
            self._wire.send_past_end(stream.number, data)
            return len(data)
        return self._wire.send_data(stream.number, data)

    def _flush(self) -> None:
        out = self._wire.take()
        if out and not self._transport.is_closing():
            self._transport.write(out)
        performed, self._performed = self._performed, []
        for stream, op, size in performed:
            if stream.received is not None:
                self._service.wrote(stream.received, op, size)

    # How replies end.

    def _leave(self, stream: Stream) -> None:
        """All of the reply was written; where the connection was lost, that is what ended it."""
        if not self._transport.is_closing():
            self._finish(stream, "complete" if stream.has_ended else "cut")

    def _close(self, stream: Stream, reason: str) -> None:
        """The script closes the connection: nothing more is read or answered."""
        self._reason = reason
        self._is_deaf = True
        self._finish(stream, "complete" if stream.has_ended else "cut")
        self._end_all("cut")

    def _end_all(self, how: How) -> None:
        for stream in list(self._streams.values()):
            self._break_off(stream, "complete" if stream.has_ended and how == "cut" else how)

    def _break_off(self, stream: Stream, how: How) -> None:
        if stream.task is not None:
            stream.task.cancel()
        self._finish(stream, how)

    def _finish(self, stream: Stream, how: How) -> None:
        self._flush()
        if self._streams.pop(stream.number, None) is not None and stream.received is not None:
            self._service.ended(stream.received, how)
