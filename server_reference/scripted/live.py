"""A reply under way: what the journal needs of it until it ends."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Sequence

from .. import credentials
from .clock import Clock
from .entries import Entry
from .ops import Body, Head, Op, Raw

__all__ = ["Live"]

_MARGIN = 16 * 1024
_TAIL_WRITES = 256
_TAIL_BYTES = 64 * 1024
_NEAR_BYTES = 1024  # where the terminal event nearly always stands
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})\b")
_BLANKS = (b"\n\n", b"\r\r", b"\n\r")  # in each empty line's end; until it comes, an event is none
_CONTENT = re.compile(
    rb'content_block_delta|"type": ?"response\.\w+(?:\.\w+)?\.delta"'
    rb'|"(?:reasoning_)?content": ?"[^"]|"tool_calls": ?\['
)
_LAST_TYPES = ("message_stop", "response.completed", "response.incomplete", "response.failed")
# As they stand in an event and in no text: there quotes are escaped, and lines have no ends.
_TERMINAL = (
    *(f'"type":{space}"{name}"'.encode() for name in _LAST_TYPES for space in ("", " ")),
    *(f"{end}data:{space}[DONE]".encode() for end in "\r\n" for space in ("", " ")),
)
_TYPES = "|".join(map(re.escape, _LAST_TYPES))
_SPACED_TERMINAL = re.compile(rf'"type"\s*:\s*"(?:{_TYPES})"|[\r\n]data:[ \t]*\[DONE\]'.encode())


class Live:
    """Collects a reply; little is done per write, the rest when it is asked for.

    Args:
        hidden: Secrets of the request, which its reply may repeat.
        max_bytes: How much of the body is shown later.
    """

    __slots__ = (
        "_kept",
        "_max_bytes",
        "_reply_bytes",
        "_room",
        "_tail",
        "entry",
        "hidden",
        "num_writes",
        "sent_bytes",
    )

    def __init__(self, entry: Entry, hidden: Sequence[str], max_bytes: int) -> None:
        self.entry = entry
        self.sent_bytes = 0
        self.num_writes = 0
        self._reply_bytes = 0
        self.hidden = hidden
        self._max_bytes = max_bytes
        self._room = max_bytes + _MARGIN
        self._kept: list[bytes] = []
        self._tail: deque[bytes] = deque(maxlen=_TAIL_WRITES)

    def body(self, data: bytes) -> None:
        """A further write of the body."""
        self.num_writes += 1
        self._reply_bytes += len(data)
        self._tail.append(data)
        if self._room > 0:
            self._kept.append(data[: self._room])
            self._room -= len(data)

    def wrote(self, op: Op, clock: Clock) -> None:
        """Any other operation, or the first write of the body."""
        if isinstance(op, Head):
            self._head(op, clock)
        elif isinstance(op, Body | Raw):
            if self.entry.head_at is None:
                status = _STATUS.match(op.data)
                self.entry.status = int(status[1]) if status else None
                self._note_time(clock)
            if self.entry.first_body_at is None:
                self.entry.first_body_at = clock.now()
            self.body(op.data)

    def fill(self, entry: Entry) -> None:
        """Put what has come so far into `entry`, redacted."""
        kept = b"".join(self._kept)
        entry.reply = credentials.redact_body(kept, self.hidden)[: self._max_bytes]
        entry.reply_bytes = self._reply_bytes
        entry.sent_bytes = self.sent_bytes
        entry.num_writes = self.num_writes
        if entry.is_event_stream:
            is_all = self._room >= 0
            whole = kept[: max(kept.rfind(blank) for blank in _BLANKS) + 2]
            entry.has_content = _CONTENT.search(whole if is_all else kept) is not None
            ends = b"\n" + (kept if is_all else self._last_writes())
            entry.has_terminal = _is_ended(ends[-_NEAR_BYTES:]) or _is_ended(ends)

    def _last_writes(self) -> bytes:
        """The end of the body, where the terminal event stands; writes can be megabytes."""
        writes: list[bytes] = []
        size = 0
        for data in reversed(self._tail):
            if size > _TAIL_BYTES:
                break
            writes.append(data)
            size += len(data)
        return b"".join(reversed(writes))

    def _head(self, head: Head, clock: Clock) -> None:
        entry = self.entry
        entry.status = head.status
        entry.declared_bytes = head.length if head.framing == "length" else None
        fields = [(name.lower(), value) for name, value in head.fields]
        entry.reply_headers = credentials.redact_headers(fields, self.hidden)
        self._note_time(clock)

    def _note_time(self, clock: Clock) -> None:
        self.entry.head_at = clock.now()
        self.entry.head_real = time.monotonic()


def _is_ended(stream: bytes) -> bool:
    """Whether there is a terminal event in `stream`."""
    if any(last in stream for last in _TERMINAL):
        return True
    return _SPACED_TERMINAL.search(stream) is not None
