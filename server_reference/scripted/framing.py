"""A reply's operations as bytes of HTTP/1.1.

Source: RFC 9112, sections 4, 6 and 7.
"""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus

from .ops import Body, End, Head, Op, Raw

__all__ = ["Framing"]

_NO_BODY = (204, 304)


class Framing:
    """The bytes of one reply, and whether the connection outlives it.

    Args:
        method: Of the request; a reply to `HEAD` has no body.
        version: `1.0` or `1.1`; the older one knows no chunks.
        keeps_alive: Whether the client wants to go on.

    Attributes:
        has_ended: Whether the reply is whole.
        closes: Whether the connection closes after it.
    """

    def __init__(self, method: str, version: str, *, keeps_alive: bool) -> None:
        self._is_head = method == "HEAD"
        self._is_old = version != "1.1"
        self._is_chunked = False
        self._has_body = not self._is_head
        self.has_ended = False
        self.closes = not keeps_alive

    def encode(self, op: Op) -> bytes:
        """What `op` puts on the wire."""
        match op:
            case Body(data):
                return self._body(data)
            case Head():
                return self._head(op)
            case Raw(data):
                return data
            case End():
                self.has_ended = True
                return b"0\r\n\r\n" if self._is_chunked and self._has_body else b""
            case _:
                return b""

    def _body(self, data: bytes) -> bytes:
        if not self._has_body:
            return b""
        if not self._is_chunked:
            return data
        # An empty chunk would be the end.
        return b"%x\r\n%b\r\n" % (len(data), data) if data else b""

    def _head(self, head: Head) -> bytes:
        lines = [_status_line(head.status, head.reason)]
        lines += [_field(name, value) for name, value in head.fields]
        if head.status >= 200:
            lines.append(self._frame(head))
            self._has_body = not self._is_head and head.status not in _NO_BODY
        lines.append(b"\r\n")
        return b"".join(lines)

    def _frame(self, head: Head) -> bytes:
        if head.status in _NO_BODY:
            return b"connection: close\r\n" if self.closes else b""
        framing = head.framing
        if framing == "chunked" and self._is_old:
            framing = "close"
        self._is_chunked = framing == "chunked"
        self.closes = self.closes or framing == "close"
        field = b""
        if self._is_chunked:
            field = b"transfer-encoding: chunked\r\n"
        elif framing == "length" and head.length is not None:
            field = b"content-length: %d\r\n" % head.length
        return field + (b"connection: close\r\n" if self.closes else b"")


@lru_cache(256)
def _status_line(status: int, reason: str | None) -> bytes:
    if reason is None:
        reason = HTTPStatus(status).phrase if status in _KNOWN else ""
    return _encoded(f"HTTP/1.1 {status} {reason}\r\n")


_KNOWN = frozenset(HTTPStatus)


@lru_cache(1024)
def _field(name: str, value: str) -> bytes:
    return _encoded(f"{name}: {value}\r\n")


def _encoded(text: str) -> bytes:
    """UTF-8; a lone surrogate stands for the byte that it escapes."""
    return text.encode("utf-8", "surrogateescape")
