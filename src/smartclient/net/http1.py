"""HTTP/1.1 without I/O: bytes become a reply.

llhttp (httptools) parses heads and chunked bodies. What it leaves open is decided here: how
long a head may be, how a body is delimited, whether the connection can carry another call.

Source: RFC 9112, sections 6 (message body), 7 (chunked), 9.3 (persistence).
"""

from __future__ import annotations

import re

from httptools import HttpParserError, HttpResponseParser

from .._call import Headers
from .failures import BadReplyError

__all__ = ["HEAD_LIMIT", "ReplyParser"]

HEAD_LIMIT = 64 * 1024
"""Most bytes of header fields in one reply, interim replies and trailers included."""


_NOBODY = object()  # has none of the methods that httptools would call
_CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_FRAMING = ("connection", "keep-alive", "content-length", "transfer-encoding")
_FRAMING_LENGTHS = frozenset(map(len, _FRAMING))


class ReplyParser:
    """Reads one reply, interim ones skipped; a new parser for every exchange.

    Attributes:
        status: `None` until the head is complete.
        is_begun: Some byte has come.
        is_complete: The reply has ended.
        is_overrun: Bytes came after its end.
        keep_alive: The connection can carry another call once the reply is complete.
        idle_timeout: Seconds the server will keep the idle connection, where it says so.
        unread: Body bytes that wait to be taken.
        received: Body bytes that have come.
        failure: What `feed` raised.
    """

    __slots__ = (
        "_body",
        "_buffer",
        "_framing",
        "_is_bodiless",
        "_parser",
        "_remaining",
        "failure",
        "headers",
        "idle_timeout",
        "is_begun",
        "is_complete",
        "is_overrun",
        "keep_alive",
        "protocol",
        "reason",
        "received",
        "status",
        "unread",
    )

    def __init__(self, method: str) -> None:
        self._is_bodiless = method in ("HEAD", "CONNECT")
        self._buffer = b""
        self._framing = 0  # bytes of heads, then bytes since the last one of a body
        self._parser: HttpResponseParser | None = None  # of a chunked body
        self._remaining: int | None = None  # of a body with a length
        self._body: list[bytes] = []
        self.status: int | None = None
        self.reason = ""
        self.protocol = "HTTP/1.1"
        self.headers = Headers()
        self.is_begun = self.is_complete = self.is_overrun = False
        self.keep_alive = True
        self.idle_timeout: float | None = None
        self.unread = self.received = 0
        self.failure: BadReplyError | None = None

    def feed(self, data: bytes) -> None:
        """Take what came from the connection; empty data is its end.

        Raises:
            BadReplyError: It is not HTTP, crosses a limit, or ends too early. What had come
                before can still be taken.
        """
        try:
            if data:
                self._feed(data)
            else:
                self._feed_eof()
        except BadReplyError as error:
            self.failure = error
            self.keep_alive = False
            raise

    def _feed(self, data: bytes) -> None:
        if self.status is None:
            data = self._feed_head(data)
            if not data:
                return
        if self.is_complete:
            self.is_overrun = True
            self.keep_alive = False  # what they belong to is unknown
        elif self._parser is not None:
            self._feed_chunked(data)
        elif self._remaining is None:
            self._take_in(data)
        else:
            self._feed_counted(data, self._remaining)

    def _feed_eof(self) -> None:
        self.keep_alive = False
        if self.is_complete:
            return
        if self.status is None:
            what = "in the middle of the reply's head" if self.is_begun else "before any reply"
            raise BadReplyError("closed", f"closed the connection {what}")
        if self._parser is None and self._remaining is None:
            self.is_complete = True
            return
        expected = "" if self._remaining is None else f" of {self.received + self._remaining:,}"
        raise BadReplyError(
            "closed",
            f"closed the connection after {self.received:,}{expected} bytes of the body, "
            "before its end",
        )

    def take(self) -> bytes:
        """Body bytes that came and were not taken yet; `b""` when there are none."""
        body = self._body
        if not body:
            return b""
        data = body[0] if len(body) == 1 else b"".join(body)
        body.clear()
        self.unread = 0
        return data

    def expires(self, now: float, bound: float | None) -> float | None:
        """Until when the idle connection may be trusted: `bound` seconds, or what is announced."""
        if self.idle_timeout is not None:
            # One second less than the server says: its clock started before ours.
            announced = max(0.0, self.idle_timeout - 1.0)
            bound = announced if bound is None else min(bound, announced)
        return None if bound is None else now + bound

    def drop(self) -> int:
        """Forget what was not taken; how many bytes it was."""
        dropped, self.unread = self.unread, 0
        self._body.clear()
        return dropped

    def _feed_head(self, data: bytes) -> bytes:
        """Collect heads until the final one is parsed; what follows it."""
        self.is_begun = True
        while True:
            searched = max(0, len(self._buffer) - 3)
            data = self._buffer + data if self._buffer else data
            if not data.startswith(b"HTTP/1."[: len(data)]):
                raise BadReplyError("protocol", "answered with bytes that are not HTTP/1.1")
            end = data.find(b"\r\n\r\n", searched)
            length = len(data) if end < 0 else end + 4
            if self._framing + length > HEAD_LIMIT:
                raise BadReplyError(
                    "limit", f"sent more than {HEAD_LIMIT // 1024} KiB of header fields"
                )
            if end < 0:
                if data.find(b"\n\n", searched) >= 0:
                    raise BadReplyError("protocol", "ended header lines without a carriage return")
                self._buffer = data
                return b""
            self._buffer, self._framing = b"", self._framing + length
            self._parse_head(data[:length])
            data = data[length:]
            if self.status is not None or not data:
                return data

    def _parse_head(self, head: bytes) -> None:
        if head[8:12] == b" 101":
            raise BadReplyError("unsupported", "switched protocols, which no call asks for")
        parser = HttpResponseParser(_NOBODY)
        try:
            parser.feed_data(head)
        except HttpParserError as error:
            raise BadReplyError("protocol", f"answered with a malformed head: {error}") from error
        status = parser.get_status_code()
        if status < 100:  # which llhttp lets pass, and nothing would ever follow as its reply
            raise BadReplyError("protocol", f"answered with the status {status:03}, which is none")
        if status < 200:
            return
        # llhttp has accepted the head, so a split tells the fields, and costs half of being
        # called for each of them.
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        self.protocol, self.reason = first[:8], first[13:]
        fields = []
        for line in lines:
            name, _, value = line.partition(":")
            fields.append((name, value.strip(" \t")))
        self.headers = Headers(fields)
        self._framing = 0
        self.status = status
        self._delimit(status, fields)

    def _delimit(self, status: int, fields: list[tuple[str, str]]) -> None:
        """Decide where the body ends and what becomes of the connection."""
        length = coding = None
        is_old = self.protocol == "HTTP/1.0"
        options: set[str] = set()
        for name, value in fields:
            if len(name) not in _FRAMING_LENGTHS:
                continue
            match name.lower():
                case "content-length":
                    length = int(value)
                case "transfer-encoding":
                    coding = value.lower() if coding is None else f"{coding}, {value.lower()}"
                case "connection":
                    options |= {option.strip() for option in value.lower().split(",")}
                case "keep-alive":
                    found = re.search(r"timeout\s*=\s*(\d{1,9})", value, re.IGNORECASE)
                    self.idle_timeout = float(found[1]) if found else None
        self.keep_alive = "close" not in options and (not is_old or "keep-alive" in options)
        if is_old and coding is not None:
            self.keep_alive = False  # section 6.1: whoever sent this may not know chunks
        if self._is_bodiless or status in (204, 304) or (length == 0 and coding is None):
            self.is_complete = True
        elif coding is not None:
            if coding != "chunked":  # RFC 9112, section 7.4: we ask for no other
                raise BadReplyError(
                    "protocol",
                    f"sent its body in transfer-encoding {coding[:80]!r}, which nobody asked for",
                )
            self._parser = HttpResponseParser(self)
            self._parser.feed_data(_CHUNKED_HEAD)
        elif length is not None:
            self._remaining = length
        else:
            self.keep_alive = False

    def _feed_counted(self, data: bytes, remaining: int) -> None:
        extra = len(data) - remaining
        if extra > 0:
            data = data[:remaining]
            self.keep_alive = False
        self._remaining = remaining - len(data)
        self._take_in(data)
        if extra >= 0:
            self.is_complete = True

    def _feed_chunked(self, data: bytes) -> None:
        assert self._parser is not None
        num_before = len(self._body)
        failure: HttpParserError | None = None
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            failure = error
        finally:  # also where a callback of ours raised
            came = sum(map(len, self._body[num_before:]))
            self.unread += came
            self.received += came
        if self.is_complete:
            self._parser = None
            self.keep_alive = self.keep_alive and failure is None
        elif failure is not None:
            raise BadReplyError("protocol", f"sent a malformed chunk: {failure}") from failure
        else:
            self._framing = 0 if came else self._framing + len(data)
            if self._framing > HEAD_LIMIT:
                raise BadReplyError(
                    "limit", f"sent more than {HEAD_LIMIT // 1024} KiB between chunks"
                )

    def _take_in(self, data: bytes) -> None:
        self._body.append(data)
        self.unread += len(data)
        self.received += len(data)

    # What httptools calls for a chunked body, by these names.

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise BadReplyError("protocol", "sent bytes after the end of its reply")

    def on_body(self, data: bytes) -> None:
        self._body.append(data)  # counted once for all that came together

    def on_message_complete(self) -> None:
        self.is_complete = True
