"""Server-sent events: bytes in any pieces, whole events out.

Source: WHATWG HTML, section 9.2.6 "Interpreting an event stream".
"""

from __future__ import annotations

from msgspec import Struct

from .._errors import EventTooLargeError

__all__ = ["MAX_EVENT_BYTES", "Event", "SSEDecoder"]

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""The largest event that is read where nobody says otherwise."""

_BOM = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS = 18  # int() of millions of digits would be quadratic
_MAX_COMMENTS = 64
_MAX_COMMENT_BYTES = 8 * 1024


class Event(Struct, frozen=True):
    """One event of a stream.

    Attributes:
        event: Its name; `message` when the stream names none.
        data: Its data lines, joined by newlines.
        id: The last id that the stream has set, `""` before the first.
        retry: Milliseconds to wait before reconnecting, when this event sets them.
    """

    event: str = "message"
    data: str = ""
    id: str = ""
    retry: int | None = None


class SSEDecoder:
    """Turns the bytes of one `text/event-stream` body into events.

    The result does not depend on where the bytes are split. Lines end with CRLF, LF or CR
    and with nothing else; text is UTF-8 whatever the header says, broken sequences become
    U+FFFD.

    Args:
        max_event_bytes: Largest block of lines between two blank ones.

    Attributes:
        comments: The newest comments not yet taken, at most 64, of at most 8 KiB each.
        retry: Milliseconds to wait before reconnecting, as the stream last set them.
    """

    __slots__ = (
        "_after_cr",
        "_closed",
        "_id",
        "_max_event_bytes",
        "_pending",
        "_start",
        "_too_large",
        "comments",
        "retry",
    )

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        if max_event_bytes < 1:
            raise ValueError(f"max_event_bytes must be at least 1, not {max_event_bytes}")
        self.comments: list[str] = []
        self.retry: int | None = None
        self._max_event_bytes = max_event_bytes
        self._id = ""
        self._start: bytes | None = b""  # what may become a BOM; None once that is settled
        self._after_cr = False
        self._pending = bytearray()  # the unfinished block, its line ends made LF
        self._too_large: EventTooLargeError | None = None
        self._closed = False

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes of the body; the events that they complete.

        Raises:
            EventTooLargeError: A block is larger than `max_event_bytes`. The events before
                it have been returned; the decoder is closed.
            ValueError: The decoder is closed.
        """
        if self._too_large is not None:
            self._fail(self._too_large)
        if self._closed:
            raise ValueError("this SSEDecoder is closed; make one for each stream")
        blocks = self._blocks(data)
        events = [event for block in blocks if (event := self._event(block)) is not None]
        if self._too_large is not None and not events:
            self._fail(self._too_large)
        return events

    def close(self) -> list[Event]:
        """End the stream, which drops an unfinished block: it may be cut anywhere.

        Returns:
            Always `[]`; a list so that a caller may treat it as one more `feed`.
        """
        self._closed, self._too_large = True, None
        self._pending.clear()
        self._start = None
        return []

    def _fail(self, error: EventTooLargeError) -> None:
        self.close()
        raise error

    def _blocks(self, data: bytes) -> list[bytes]:
        """The blocks that `data` completes; what is left over becomes pending."""
        if self._start is not None:
            data = self._without_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]  # the second half of a CRLF
        if not data:
            return []
        if b"\r" in data:
            self._after_cr = data[-1:] == b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        pending = self._pending
        if pending:
            # Only the new bytes are searched, so a huge line in small pieces stays linear.
            is_joint = pending[-1] == 10 and data[:1] == b"\n"
            pending += data
            if not is_joint and b"\n\n" not in data:
                self._check(pending)
                return []
            data = bytes(pending)
            pending.clear()
        blocks = data.split(b"\n\n")
        pending += blocks.pop()
        if len(data) > self._max_event_bytes:
            for number, block in enumerate(blocks):
                if not self._check(block):
                    pending.clear()
                    return blocks[:number]
            self._check(pending)
        return blocks

    def _check(self, block: bytes | bytearray) -> bool:
        # The newline that may end a pending block is half of the blank line.
        if len(block) - (block[-1:] == b"\n") <= self._max_event_bytes:
            return True
        self._too_large = EventTooLargeError(limit=self._max_event_bytes)
        return False

    def _without_bom(self, data: bytes) -> bytes:
        """`data` without the one byte order mark that may begin the stream."""
        data = (self._start or b"") + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._start = data
            return b""
        self._start = None
        return data.removeprefix(_BOM)

    def _event(self, block: bytes) -> Event | None:
        # The two forms that nearly every event has; the rest is read line by line.
        if block[:6] == b"data: " and b"\n" not in block:
            return Event("message", block[6:].decode("utf-8", "replace"), self._id)
        if block[:7] == b"event: ":
            name, _, data = block.partition(b"\n")
            if data[:6] == b"data: " and b"\n" not in data:
                kind = name[7:].decode("utf-8", "replace") or "message"
                return Event(kind, data[6:].decode("utf-8", "replace"), self._id)
        return self._read_fields(block)

    def _read_fields(self, block: bytes) -> Event | None:
        kind, retry, data = b"", None, list[bytes]()
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            match name:
                case b"data":
                    data.append(value)
                case b"event":
                    kind = value
                case b"id" if b"\0" not in value:
                    self._id = value.decode("utf-8", "replace")
                case b"retry" if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
                    self.retry = retry = int(value)
                case b"" if line:
                    self._comment(value)
                case _:
                    pass  # an unknown field, or the blank line before a block
        if not data:
            return None
        text = b"\n".join(data).decode("utf-8", "replace")
        return Event(kind.decode("utf-8", "replace") or "message", text, self._id, retry)

    def _comment(self, value: bytes) -> None:
        self.comments.append(value[:_MAX_COMMENT_BYTES].decode("utf-8", "replace"))
        if len(self.comments) > _MAX_COMMENTS:
            del self.comments[0]
