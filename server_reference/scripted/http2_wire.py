"""One HTTP/2 connection as the scripted server drives it: `h2`, and what it would not send.

Without I/O: bytes go in and events come out; what is to be sent is collected, and its size known.

Source: RFC 9113, sections 5.1.2 (concurrent streams), 5.2 (flow control), 6.5 (settings).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import InvalidSettingsValueError, ProtocolError, StreamClosedError

from .http2_frames import SETTINGS, data_frame, goaway_frame, settings_frame

__all__ = [
    "ConnectionTerminated",
    "DataReceived",
    "Event",
    "ProtocolError",
    "RemoteSettingsChanged",
    "RequestReceived",
    "StreamEnded",
    "StreamReset",
    "WindowUpdated",
    "Wire",
]

_DEFAULTS = {"MAX_CONCURRENT_STREAMS": 100, "MAX_HEADER_LIST_SIZE": 65_536}
_NO_LIMIT = 2**31 - 1


class Wire:
    """Frames in both directions.

    Args:
        settings: Sent at the start, by name, over 100 concurrent streams and no more.

    Attributes:
        num_bytes: How many were queued so far.
        max_streams: How many the client may have open; a lower number counts once the client
            has acknowledged it.
        is_starving: Whether the client is granted no more window.
    """

    def __init__(self, settings: Mapping[str, int]) -> None:
        self._h2 = H2Connection(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self._out: list[bytes] = []
        self._limits: deque[int | None] = deque()
        self._last_stream_id = _NO_LIMIT
        self.num_bytes = 0
        self.is_starving = False
        self._h2.initiate_connection()
        # We count streams ourselves: h2 closes the connection over one too many.
        self._h2.update_settings({SETTINGS["MAX_CONCURRENT_STREAMS"]: _NO_LIMIT})
        self._h2.local_settings.acknowledge()
        self._h2.clear_outbound_data_buffer()
        values = {**_DEFAULTS, **settings}
        self.max_streams = values["MAX_CONCURRENT_STREAMS"]
        self.announce(tuple(values.items()))

    # What comes.

    def receive(self, data: bytes) -> list[Event]:
        """What `data` says.

        Raises:
            ProtocolError: It is no HTTP/2; a GOAWAY is queued, and nothing else may follow.
        """
        events = self._h2.receive_data(data)
        for event in events:
            if isinstance(event, SettingsAcknowledged) and self._limits:
                limit = self._limits.popleft()
                self.max_streams = self.max_streams if limit is None else limit
        return events

    def is_taken(self, stream_id: int) -> bool:
        """Whether the client may open it: no GOAWAY has said otherwise."""
        return stream_id <= self._last_stream_id

    def acknowledge(self, event: DataReceived) -> None:
        """Grant the client as much window as it has used."""
        if not self.is_starving:
            self._h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)

    # What is sent.

    def window(self, stream_id: int) -> int:
        """How many bytes the client takes on a stream now; may be negative."""
        return self._h2.local_flow_control_window(stream_id)

    def send_head(
        self, stream_id: int, fields: Sequence[tuple[bytes, bytes]], *, ends: bool = False
    ) -> None:
        self._h2.send_headers(stream_id, list(fields), end_stream=ends)

    def send_data(self, stream_id: int, data: bytes | memoryview) -> int:
        """One DATA frame of what may be sent of `data` now; how much that was."""
        room = min(self.window(stream_id), self._h2.max_outbound_frame_size)
        part = bytes(data[: max(0, room)])
        if part or not data:
            self._h2.send_data(stream_id, part)
        return len(part)

    def send_past_end(self, stream_id: int, data: bytes | memoryview) -> None:
        """DATA on a stream that has ended."""
        self._emit(data_frame(stream_id, bytes(data)))

    def end(self, stream_id: int) -> None:
        self._h2.end_stream(stream_id)

    def reset(self, stream_id: int, code: int) -> None:
        with contextlib.suppress(StreamClosedError):  # nothing is left to be reset
            self._h2.reset_stream(stream_id, code)

    def go_away(self, last_stream_id: int | None, code: int) -> None:
        """Take no streams after `last_stream_id`; `None` is the newest."""
        newest = self._h2.highest_inbound_stream_id
        self._last_stream_id = newest if last_stream_id is None else last_stream_id
        self._emit(goaway_frame(self._last_stream_id, code))

    def announce(self, values: Sequence[tuple[str, int]]) -> None:
        """Send SETTINGS; h2 learns of what concerns it, and holds to it once acknowledged."""
        known = {SETTINGS[name]: value for name, value in values}
        self._limits.append(known.pop(SETTINGS["MAX_CONCURRENT_STREAMS"], None))
        self._pull()
        with contextlib.suppress(InvalidSettingsValueError):  # the client's to refuse
            self._h2.update_settings(known)
        self._h2.clear_outbound_data_buffer()
        self._emit(settings_frame(values))

    def mark(self) -> int:
        """How many bytes were queued up to now."""
        self._pull()
        return self.num_bytes

    def take(self) -> bytes:
        """What is to be sent, each byte once."""
        self._pull()
        out, self._out = self._out, []
        return b"".join(out)

    def _emit(self, data: bytes) -> None:
        self._pull()
        self._out.append(data)
        self.num_bytes += len(data)

    def _pull(self) -> None:
        if data := self._h2.data_to_send():
            self._out.append(data)
            self.num_bytes += len(data)
