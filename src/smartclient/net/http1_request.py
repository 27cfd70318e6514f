"""HTTP/1.1 without I/O: a request becomes bytes.

Source: RFC 9112, sections 3 (request line), 6 (message body), 7.1 (chunked).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from .._call import Call, Origin
from .proxy import Proxy
from .secret import SecretBytes

__all__ = ["BODILESS", "JOIN_LIMIT", "LAST_CHUNK", "chunk", "head_of", "host_of", "joined"]

JOIN_LIMIT = 64 * 1024
"""Bodies up to this size travel with their head in one write."""

LAST_CHUNK = b"0\r\n\r\n"

BODILESS = frozenset({"GET", "HEAD", "DELETE", "OPTIONS", "TRACE"})
"""Methods whose empty body is none."""

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_DELIMITERS = frozenset({"content-length", "transfer-encoding"})


@lru_cache(maxsize=512)
def _kind_of_name(name: str) -> Literal["plain", "host", "delimiter", "invalid"]:
    if not _TOKEN.fullmatch(name):
        return "invalid"
    name = name.lower()
    if name in _DELIMITERS:
        return "delimiter"
    return "host" if name == "host" else "plain"


def _refuse_header(call: Call) -> ValueError:
    """Say which field cannot be sent, by its name or its place: the value may be a key."""
    for place, (name, value) in enumerate(call.headers, 1):
        kind = _kind_of_name(name)
        if kind == "invalid":
            return ValueError(
                f"the name of header field {place} is not allowed in HTTP; "
                "use letters, digits and hyphens"
            )
        if kind == "delimiter":
            return ValueError(f"leave out {name}: the connection adds it")
        if not _VALUE.fullmatch(value):
            return ValueError(
                f"the value of header {name!r} has a line break, a control character or one "
                f"outside Latin-1 ({len(value)} characters in all, not shown); "
                "look for a stray newline at its end"
            )
    raise AssertionError("unreachable")


def host_of(origin: Origin) -> str:
    """The origin as its server knows it: with the port only where that is not the usual one."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    default = 443 if origin.scheme == "https" else 80
    return host if origin.port == default else f"{host}:{origin.port}"


def head_of(call: Call, forwarder: Proxy | None = None) -> SecretBytes:
    """The request line and header fields of `call`, `host` first, up to the empty line.

    A `forwarder`, a proxy that is given the request itself, gets the whole URL.

    Raises:
        ValueError: A method, target, header name or value that HTTP cannot carry, or a
            header that the connection adds by itself. The value is never shown.
        TypeError: A body that is neither bytes nor an iterable of bytes.
    """
    headers = call.headers
    asked = (call.method, call.target, call.origin, forwarder)
    written = headers.written  # looked at once: another thread may keep another head meanwhile
    if written is None or written[0] != asked:
        # Kept: a client sends the same fields to the same few places.
        headers.written = written = (asked, _beginning(call, forwarder))
    return SecretBytes(written[1] + _delimiter(call.method, call.body))


def _beginning(call: Call, forwarder: Proxy | None) -> SecretBytes:
    """The head up to what tells of the body."""
    method, target = call.method, call.target
    if not _TOKEN.fullmatch(method):
        raise ValueError("the method is no HTTP token; use one such as GET or POST")
    if not (target.isascii() and target.isprintable()) or " " in target or not target:
        raise ValueError("the path and query hold spaces or characters outside ASCII; quote them")
    beginning = _fields_of(call, forwarder)
    if beginning is None:
        raise _refuse_header(call)
    return beginning


def _fields_of(call: Call, forwarder: Proxy | None) -> SecretBytes | None:
    """The same; `None` for fields that cannot be sent: no frame of their error holds them."""
    lines, values, host = [], [], None
    for name, value in call.headers.fields:
        kind = _kind_of_name(name)
        values.append(value)
        if kind == "plain":
            lines.append(f"{name}: {value}\r\n")
        elif kind == "host":
            host = value
        else:
            return None
    together = "".join(values)
    # Two passes in C tell for nearly every call that all values are fine.
    is_plain = together.isascii() and together.isprintable()
    if not (is_plain or _VALUE.fullmatch(together)):
        return None
    target, host = call.target, host or host_of(call.origin)
    if forwarder is not None:
        target = f"http://{host_of(call.origin)}{target}"
        lines += [f"{n}: {v}\r\n" for n, v in forwarder.told() if call.headers.get(n) is None]
    first = f"{call.method} {target} HTTP/1.1\r\nhost: {host}\r\n"
    return SecretBytes("".join((first, *lines)).encode("latin-1"))


def _delimiter(method: str, body: object) -> bytes:
    """What tells where the body ends, and the empty line."""
    if isinstance(body, (bytes, bytearray)):
        if not body and method in BODILESS:
            return b"\r\n"
        return b"content-length: %d\r\n\r\n" % len(body)
    if isinstance(body, (str, memoryview)) or not (
        hasattr(body, "__iter__") or hasattr(body, "__aiter__")
    ):
        raise TypeError(f"a body is bytes or an iterable of bytes, not {type(body).__name__}")
    return b"transfer-encoding: chunked\r\n\r\n"


def joined(head: bytes, body: bytes | bytearray) -> tuple[SecretBytes, memoryview | None]:
    """What to write first, and what is left of a body too large to be copied."""
    rest = memoryview(body)[JOIN_LIMIT:] if len(body) > JOIN_LIMIT else None
    return SecretBytes(head + body[:JOIN_LIMIT]), rest


def chunk(data: bytes) -> bytes:
    """One chunk of a body without known length; empty data is none, because it would end it."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
