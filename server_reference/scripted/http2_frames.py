"""HTTP/2 frames and header lists as a script wants them, without any state.

`h2` writes what keeps to the protocol; what it would refuse, or would take for the end of its
connection, is put into bytes here.

Source: RFC 9113, sections 4.1, 6 and 8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from .ops import Head

__all__ = [
    "SETTINGS",
    "data_frame",
    "goaway_frame",
    "reply_fields",
    "request_parts",
    "settings_frame",
]

SETTINGS = {
    "HEADER_TABLE_SIZE": 1,
    "ENABLE_PUSH": 2,
    "MAX_CONCURRENT_STREAMS": 3,
    "INITIAL_WINDOW_SIZE": 4,
    "MAX_FRAME_SIZE": 5,
    "MAX_HEADER_LIST_SIZE": 6,
    "ENABLE_CONNECT_PROTOCOL": 8,
}
"""Codes of the settings that have a name."""

_DATA, _SETTINGS, _GOAWAY = 0, 4, 7
_OF_HTTP1 = frozenset(
    "connection keep-alive proxy-connection transfer-encoding upgrade content-length".split()
)
_Field = tuple[bytes, bytes]


def data_frame(stream_id: int, data: bytes) -> bytes:
    """DATA past the end of its stream, and past every window."""
    return _frame(_DATA, stream_id, data)


def goaway_frame(last_stream_id: int, code: int) -> bytes:
    """GOAWAY that leaves the streams up to `last_stream_id` alone."""
    return _frame(_GOAWAY, 0, struct.pack(">II", last_stream_id, code))


def settings_frame(values: Iterable[tuple[str, int]]) -> bytes:
    """SETTINGS by name, right or wrong values alike."""
    return _frame(
        _SETTINGS, 0, b"".join(struct.pack(">HI", SETTINGS[name], value) for name, value in values)
    )


def _frame(kind: int, stream_id: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, 0, stream_id) + payload


def reply_fields(head: Head) -> list[_Field]:
    """A reply's header list: what HTTP/1.1 says of the connection is left out.

    `content-length` is sent where the script frames by length, right or wrong.
    """
    fields = [(b":status", b"%d" % head.status)]
    for name, value in head.fields:
        if (small := name.lower()) not in _OF_HTTP1:
            fields.append((_encoded(small), _encoded(value)))
    if head.framing == "length" and head.length is not None and head.status >= 200:
        fields.append((b"content-length", b"%d" % head.length))
    return fields


def request_parts(fields: Sequence[_Field]) -> tuple[str, str, list[tuple[str, str]]]:
    """Method, target and headers of a request, as HTTP/1.1 would have them.

    The authority becomes `host` (section 8.3.1); h2 has joined the crumbs of a cookie.
    """
    given = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
    pseudo = {name: value for name, value in given if name.startswith(":")}
    headers = [field for field in given if not field[0].startswith(":")]
    authority = pseudo.get(":authority", "")
    if authority and all(name != "host" for name, _ in headers):
        headers.insert(0, ("host", authority))
    return pseudo.get(":method", ""), pseudo.get(":path", authority), headers


def _encoded(text: str) -> bytes:
    """UTF-8; a lone surrogate stands for the byte that it escapes."""
    return text.encode("utf-8", "surrogateescape")
