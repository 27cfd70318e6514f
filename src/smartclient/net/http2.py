"""HTTP/2 without I/O: one connection's streams on top of `h2`.

Frames of a stream's body are read here, because `h2` takes ten times as long for one as its
event does; so is GOAWAY, after which `h2` refuses to go on. All else is `h2`'s. What it
leaves open is decided here: how much may wait unread, when windows are given back, how much
a server may send that is of no use.

Source: RFC 9113, sections 5.1 (streams), 5.2 (flow control), 6 (frames), 8.1 (malformed
messages), 8.7 (what was not processed), 10.5 (what a peer can waste).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import DenialOfServiceError, ProtocolError
from h2.settings import SettingCodes, Settings

from .failures import BadReplyError
from .http2_reply import StreamReply
from .http2_request import Fields
from .pool import MOST_STREAMS

__all__ = ["STREAM_WINDOW", "Http2"]

STREAM_WINDOW = 256 * 1024
"""Body bytes of one reply that may wait for their reader."""

_CONNECTION_WINDOW = 2**24  # given back as it comes: only a stream's own reader slows it down
_FRAME = 16_384  # the longest that we take
_HEADER_LIMIT = 64 * 1024
_WASTE = 1000  # frames without use that may come at once, and
_WASTE_RATE = 100.0  # how many a second after that
_UPDATES_PER_STREAM = 8.0  # grants of window that a request earns, and
_UPDATES_PER_BYTE = 1 / 64  # those that its body does
_LAST_NUMBER = 2**31 - 1
_SEND_AT_ONCE = 64 * 1024

_DATA, _HEADERS, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 7, 8, 9
_END_STREAM, _END_HEADERS, _PADDED = 1, 4, 8


class Http2:
    """One connection: bytes in and out, requests out, replies in.

    Attributes:
        streams: Those that are open, by number.
        most: How many the server lets be open; 100 until it says.
        is_used_up: No more streams can be opened.
        has_credit: Windows may have grown since this was last set to false.
    """

    def __init__(self, now: float) -> None:
        config = H2Configuration(
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
            validate_inbound_headers=False,  # a malformed reply must not end its siblings
            normalize_inbound_headers=False,
        )
        self._h2 = H2Connection(config)
        self._h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                SettingCodes.MAX_FRAME_SIZE: _FRAME,
                SettingCodes.MAX_HEADER_LIST_SIZE: _HEADER_LIMIT,
            },
        )
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_CONNECTION_WINDOW - 65_535)
        self.streams: dict[int, StreamReply] = {}
        self.most = MOST_STREAMS
        self.is_used_up = self.has_credit = False
        self._rest = b""
        self._raw: list[bytes] = []  # frames that h2 knows nothing of
        self._owed = self._owed_raw = 0  # of the connection's window
        self._block = 0  # bytes of the header block that is coming
        self._waste, self._wasted_at = float(_WASTE), now
        self._updates = 0.0  # WINDOW_UPDATE frames that are of use, by what was sent

    # What is sent.

    @property
    def has_room(self) -> bool:
        """Whether another stream can be opened."""
        return not self.is_used_up and len(self.streams) < self.most

    @property
    def is_starved(self) -> bool:
        """Whether the server lets no request's body pass."""
        return self._h2.outbound_flow_control_window <= 0

    def open(self, reply: StreamReply, fields: Fields, *, ends: bool) -> None:
        """Send the head of a request, or all of one without a body."""
        reply.number = number = self._h2.get_next_available_stream_id()
        self._h2.send_headers(number, fields, end_stream=ends)
        self.streams[number] = reply
        reply.has_sent_all = ends
        self._updates += _UPDATES_PER_STREAM
        if number + 2 > _LAST_NUMBER:
            self.is_used_up = True

    def send(self, reply: StreamReply, data: memoryview, *, ends: bool) -> int:
        """Send what the windows let pass of `data`, at most 64 KiB; how much that was."""
        h2, number, done = self._h2, reply.number, 0
        if not data and ends:
            h2.end_stream(number)
            reply.has_sent_all = True
        while done < min(len(data), _SEND_AT_ONCE):
            room = min(h2.local_flow_control_window(number), h2.max_outbound_frame_size)
            if room <= 0:
                break
            part = data[done : done + room]
            done += len(part)
            reply.has_sent_all = ends and done == len(data)
            h2.send_data(number, part, end_stream=reply.has_sent_all)
        self._updates += done * _UPDATES_PER_BYTE
        return done

    def reset(self, reply: StreamReply, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """Tell the server that nobody wants the rest; one that has ended is left alone."""
        if self.streams.pop(reply.number, None) is None:
            return
        if not (reply.is_complete and reply.has_sent_all):
            self._h2.reset_stream(reply.number, code)

    def credit(self, reply: StreamReply) -> None:
        """Give the server its window back for what was taken of a reply."""
        if reply.owed < STREAM_WINDOW // 2 or reply.is_complete or reply.failure is not None:
            return
        if reply.is_counted:
            self._h2.increment_flow_control_window(reply.owed, reply.number)
        else:
            self._raw.append(_window_update(reply.number, reply.owed))
        reply.owed = 0

    def ping(self) -> None:
        """Ask the server for a sign of life."""
        self._h2.ping(b"still on")

    def pending(self) -> bytes:
        """What has to be written now."""
        data = self._h2.data_to_send()
        if self._raw:
            data += b"".join(self._raw)
            self._raw.clear()
        return data

    # What comes.

    def receive(self, data: bytes, now: float) -> list[StreamReply]:
        """Take what came; the replies that it has changed.

        Raises:
            BadReplyError: It is no HTTP/2, or crosses a limit; the connection is at its end.
        """
        touched: dict[int, StreamReply] = {}
        self._waste = min(float(_WASTE), self._waste + (now - self._wasted_at) * _WASTE_RATE)
        self._wasted_at = now
        try:
            for part in self._parts(data, touched):
                for event in self._h2.receive_data(part):
                    self._take(event, touched)
        except DenialOfServiceError as error:
            raise BadReplyError("limit", f"sent header fields past a limit: {error}") from error
        except ProtocolError as error:
            raise BadReplyError("protocol", f"broke HTTP/2: {_words_of(error)}") from error
        self._give_back()
        return list(touched.values())

    def _parts(self, data: bytes, touched: dict[int, StreamReply]) -> Iterator[bytes]:
        """What h2 has to see of `data`; the rest is dealt with."""
        if self._rest:
            data = self._rest + data
        begun = at = 0
        while len(data) - at >= 9:
            size, kind, flags = int.from_bytes(data[at : at + 3], "big"), data[at + 3], data[at + 4]
            if size > _FRAME:
                raise BadReplyError("protocol", f"sent a frame of {size:,} bytes, past our limit")
            after = at + 9 + size
            if after > len(data):
                break
            number = int.from_bytes(data[at + 5 : at + 9], "big") & _LAST_NUMBER
            self._weigh(kind, flags, size, number)
            reply = self.streams.get(number) if kind == _DATA and not self._block else None
            is_ours = reply is not None and not (reply.is_counted or flags & _PADDED)
            if is_ours or (kind == _GOAWAY and size >= 8 and number == 0 and not self._block):
                if begun < at:
                    yield data[begun:at]
                    # Only now is it known whether the reply's head was there before.
                    reply = self.streams.get(number)
                    is_ours = reply is not None and not reply.is_counted
                payload = data[at + 9 : after]
                begun = after
                if kind == _GOAWAY:
                    self._go_away(payload, touched)
                elif reply is None or not is_ours or reply.status is None:
                    yield data[at:after]
                elif self._put(reply, payload, touched) and flags & _END_STREAM:
                    yield b"\0\0\0" + data[at + 3 : at + 9]  # its end alone
            at = after
        if begun < at:
            yield data[begun:at]
        self._rest = data[at:]

    def _put(self, reply: StreamReply, data: bytes, touched: dict[int, StreamReply]) -> bool:
        """Take a piece of a body; false when the server had no window for it."""
        self._owed_raw += len(data)
        touched[reply.number] = reply
        if reply.unread + reply.owed + len(data) > STREAM_WINDOW:
            self._end(reply, BadReplyError("protocol", "sent more than the stream's window"))
            self._h2.reset_stream(reply.number, ErrorCodes.FLOW_CONTROL_ERROR)
            self.is_used_up = True  # what it goes on to send would stand before every reply
            return False
        if data:
            reply.put(data)
        return True

    def _weigh(self, kind: int, flags: int, size: int, number: int) -> None:
        """Bound what is of no use, and header blocks in many pieces."""
        if kind in (_HEADERS, _CONTINUATION):
            self._block = 0 if flags & _END_HEADERS else self._block + size + 1
            if self._block > _HEADER_LIMIT:
                raise BadReplyError(
                    "limit", f"sent more than {_HEADER_LIMIT // 1024} KiB of header fields"
                )
        if kind == _HEADERS and number in self.streams:
            return
        if kind == _WINDOW_UPDATE and self._updates >= 1:
            self._updates -= 1
            return
        if kind == _DATA and (size or flags & _END_STREAM):
            self._waste = min(float(_WASTE), self._waste + 1)
            return
        self._spend()

    def _spend(self) -> None:
        self._waste -= 1
        if self._waste < 0:
            raise BadReplyError(
                "limit", f"sent more than {_WASTE:,} frames in a row that are of no use"
            )

    def _take(self, event: Event, touched: dict[int, StreamReply]) -> None:
        number = getattr(event, "stream_id", 0)
        reply = self.streams.get(number)
        match event:
            case RemoteSettingsChanged():
                self.most = min(MOST_STREAMS, self._h2.remote_settings.max_concurrent_streams)
                self.has_credit = True
            case WindowUpdated():
                self.has_credit = True
            case DataReceived(flow_controlled_length=size):
                self._owed += size or 0
                if reply is not None:
                    reply.owed += (size or 0) - len(event.data or b"")  # padding is read
                    if event.data:
                        reply.put(event.data)
            case InformationalResponseReceived():
                self._spend()
                if reply is not None:
                    reply.is_begun = True
            case ResponseReceived() if reply is not None:
                reply.is_begun = True
                reply.begin([(name, value) for name, value in event.headers or []])
                if reply.failure is not None:
                    self._end(reply, reply.failure)
                    self._h2.reset_stream(number, ErrorCodes.PROTOCOL_ERROR)
            case StreamEnded() if reply is not None:
                self._complete(reply)
            case StreamReset() if reply is not None:
                self._end(reply, _reset_by(event.error_code, is_begun=reply.is_begun))
            case _:
                return
        if reply is not None:
            touched[number] = reply

    def _complete(self, reply: StreamReply) -> None:
        if reply.status is None:
            self._end(reply, BadReplyError("protocol", "ended a stream without a reply"))
        reply.is_complete = reply.failure is None
        if reply.has_sent_all:
            self.streams.pop(reply.number, None)

    def _end(self, reply: StreamReply, failure: BadReplyError) -> None:
        self.streams.pop(reply.number, None)
        if not reply.is_complete:
            reply.failure = failure

    def _go_away(self, payload: bytes, touched: dict[int, StreamReply]) -> None:
        """No more streams; those above the last one that it names were not processed."""
        self.is_used_up = True
        last, code = struct.unpack_from(">II", payload)
        why = _name_of(code)
        for number in [number for number in self.streams if number > last & _LAST_NUMBER]:
            reply = touched[number] = self.streams[number]
            self._end(reply, _not_processed(f"takes no more requests ({why})", reply.is_begun))

    def _give_back(self) -> None:
        """The connection's window, at once: whoever reads slowly slows down only himself."""
        if self._owed_raw >= _CONNECTION_WINDOW // 4:
            self._raw.append(_window_update(0, self._owed_raw))
            self._owed_raw = 0
        if self._owed >= _CONNECTION_WINDOW // 4:
            self._h2.increment_flow_control_window(self._owed)
            self._owed = 0


def _window_update(number: int, size: int) -> bytes:
    return struct.pack(">HBBBII", 0, 4, _WINDOW_UPDATE, 0, number, size)


def _words_of(error: ProtocolError) -> str:
    """What is wrong, shortly: it may quote all that came, or be a number alone."""
    words = str(error)
    return f"{type(error).__name__} {words}" if words.isdecimal() else words[:200]


def _name_of(code: int) -> str:
    return ErrorCodes(code).name if code in ErrorCodes.__members__.values() else f"code {code}"


def _not_processed(how: str, is_begun: bool) -> BadReplyError:
    if is_begun:  # whatever it says now, it has begun
        return BadReplyError("read", how)
    return BadReplyError("refused", f"{how} and has not processed this one; it can be sent again")


def _reset_by(code: ErrorCodes | int | None, *, is_begun: bool) -> BadReplyError:
    code = int(code or 0)
    if code == ErrorCodes.REFUSED_STREAM:
        return _not_processed(f"reset the stream ({_name_of(code)})", is_begun)
    if code == ErrorCodes.HTTP_1_1_REQUIRED:
        return BadReplyError("unsupported", 'wants HTTP/1.1; set http_version="1.1"')
    when = "in the middle of its reply" if is_begun else "before any reply"
    how = f"reset the stream {when} ({_name_of(code)}); it may have processed the request"
    return BadReplyError("read" if is_begun else "closed", how)
