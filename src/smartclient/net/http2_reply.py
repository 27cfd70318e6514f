"""A reply on a stream of HTTP/2, as far as it has come; no I/O.

Source: RFC 9113, sections 8.2.1 (fields that cannot be) and 8.3.2 (`:status`).
"""

from __future__ import annotations

import re

from .._call import Headers
from .failures import BadReplyError

__all__ = ["StreamReply"]

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_STATUS = re.compile(rb"[1-9][0-9]{2}")
_NO_VALUE = re.compile(rb"[\0\r\n]")


class StreamReply:
    """A reply on a stream of its own, as far as it has come.

    Attributes:
        number: The stream's; 0 before it is opened.
        status: `None` until the head has come.
        is_begun: Some of it has come.
        is_complete: It has ended.
        has_sent_all: The request has ended.
        unread: Body bytes that wait to be taken.
        failure: Why nothing more will come.
    """

    __slots__ = (
        "_body",
        "failure",
        "has_sent_all",
        "headers",
        "is_begun",
        "is_complete",
        "is_counted",
        "number",
        "owed",
        "status",
        "unread",
    )

    protocol = "HTTP/2"
    reason = ""  # there are none

    def __init__(self, method: str) -> None:
        self.number = 0
        self.status: int | None = None
        self.headers = Headers()
        self.is_begun = self.is_complete = self.has_sent_all = False
        self.is_counted = method == "HEAD"  # h2 counts its bytes, so it has to see them
        self.unread = 0
        self.owed = 0  # bytes that were taken, and not given back to the server's window
        self.failure: BadReplyError | None = None
        self._body: list[bytes] = []

    def take(self) -> bytes:
        """Body bytes that came and were not taken yet; `b""` when there are none."""
        body = self._body
        if not body:
            return b""
        data = body[0] if len(body) == 1 else b"".join(body)
        self.drop()
        return data

    def drop(self) -> int:
        """Forget what was not taken; how many bytes it was."""
        dropped, self.unread = self.unread, 0
        self.owed += dropped
        self._body.clear()
        return dropped

    def put(self, data: bytes) -> None:
        self._body.append(data)
        self.unread += len(data)

    def begin(self, fields: list[tuple[bytes, bytes]]) -> None:
        """Take the head of the reply; `failure` says when it is none."""
        (name, status), *others = fields or [(b"", b"")]
        if name != b":status" or not _STATUS.fullmatch(status):
            self._malformed("without a status")
        elif not all(_NAME.fullmatch(name) and not _NO_VALUE.search(v) for name, v in others):
            self._malformed("with a header field that cannot be")
        else:
            self.headers = Headers((n.decode("ascii"), v.decode("latin-1")) for n, v in others)
            self.is_counted = self.is_counted or self.headers.get("content-length") is not None
            self.status = int(status)

    def _malformed(self, how: str) -> None:
        self.failure = BadReplyError("protocol", f"answered {how}")
