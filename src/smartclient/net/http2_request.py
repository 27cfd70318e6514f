"""A call as the header fields of an HTTP/2 request.

Source: RFC 9113, sections 8.2.1 (values), 8.2.2 (fields of the connection) and 8.3.1
(pseudo-header fields); RFC 7541, section 7.1.3 (fields that are never indexed).
"""

from __future__ import annotations

from functools import lru_cache
from logging import DEBUG, LogRecord, getLogger

from hpack import HeaderTuple, NeverIndexedHeaderTuple

from .._call import Call
from .http1_request import BODILESS, host_of

__all__ = ["Fields", "fields_of"]


class Fields(list[HeaderTuple]):
    """Header fields, one of which is a key: what shows the frames of an error shows none."""

    def __repr__(self) -> str:
        return f"Fields({len(self)}, not shown)"

    def __rich_repr__(self) -> list[int]:  # `rich` would look into a list
        return [len(self)]


_OF_HTTP1 = frozenset(
    "connection proxy-connection keep-alive transfer-encoding upgrade http2-settings".split()
)
_SECRET = frozenset(
    "authorization proxy-authorization x-api-key api-key x-goog-api-key cookie".split()
)


def fields_of(call: Call) -> Fields:
    """The pseudo-header fields and header fields of `call`, which HTTP/1.1 could carry."""
    host, fields = None, Fields()
    for name, value in call.headers.fields:
        kind, small = _kind_of(name)
        if kind == "plain":
            fields.append(HeaderTuple(small, _value(value)))
        elif kind == "secret":
            fields.append(NeverIndexedHeaderTuple(small, _value(value)))
        elif kind == "host":
            host = value
        elif kind == "te" and value.strip().lower() == "trailers":
            fields.append(HeaderTuple(small, b"trailers"))
    if isinstance(call.body, (bytes, bytearray)) and (call.body or call.method not in BODILESS):
        fields.append(HeaderTuple(b"content-length", b"%d" % len(call.body)))
    authority = (host or host_of(call.origin)).encode("latin-1")
    fields[:0] = [
        HeaderTuple(b":method", call.method.encode("ascii")),
        HeaderTuple(b":scheme", call.origin.scheme.encode("ascii")),
        HeaderTuple(b":authority", authority),
        HeaderTuple(b":path", call.target.encode("ascii")),
    ]
    return fields


def _value(value: str) -> bytes:
    # Over HTTP/1.1 blanks around it are nobody's; here they would make the request malformed.
    return value.strip(" \t").encode("latin-1")


@lru_cache(maxsize=512)
def _kind_of(name: str) -> tuple[str, bytes]:
    name = name.lower()
    small = name.encode("ascii")
    if name in _SECRET:
        return "secret", small
    if name in ("host", "te"):
        return name, small
    return ("of http1" if name in _OF_HTTP1 else "plain"), small


def _is_no_detail(record: LogRecord) -> bool:
    return record.levelno > DEBUG


# At DEBUG hpack logs whole header blocks, and keys are in them.
for _name in ("hpack.hpack", "hpack.table"):
    getLogger(_name).addFilter(_is_no_detail)
