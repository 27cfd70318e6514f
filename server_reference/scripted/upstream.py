"""A request to a real server over HTTP/1.1, and its reply as it comes, as a script's operations.

Source: RFC 9112, sections 6 (framing) and 7.6.1 of RFC 9110 (fields of one connection).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import Literal
from urllib.parse import urlsplit

import httptools

from .ops import Body, End, Fin, Head, Op, Reset
from .request import Received

__all__ = ["Upstream", "UpstreamError"]

_OF_ONE_CONNECTION = frozenset(
    "connection keep-alive proxy-connection proxy-authorization te trailer transfer-encoding "
    "upgrade host content-length accept-encoding expect http2-settings".split()
)
_OF_FRAMING = frozenset("connection keep-alive transfer-encoding content-length".split())
_CONNECT_SECONDS = 30.0
_PORTS = {"http": 80, "https": 443}


class UpstreamError(Exception):
    """The upstream gave no reply that can be recorded."""


class Upstream:
    """Somebody's API.

    Args:
        base_url: `http://` or `https://`, a host, and perhaps a path that goes before each
            target.
        ca_file: An authority to trust in place of the system's.
        timeout: Longest silence, in seconds.

    Raises:
        ValueError: `base_url` is none.
    """

    def __init__(self, base_url: str, *, ca_file: str | None = None, timeout: float = 600.0):
        parts = urlsplit(base_url)
        if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.username:
            raise ValueError(
                f"upstream must be like https://api.example, without user and query, "
                f"not {parts.scheme}://{parts.hostname or ''}"
            )
        self.base_url = base_url.rstrip("/")
        self._host, self._authority = parts.hostname, parts.netloc
        self._port = parts.port or _PORTS[parts.scheme]
        self._path = parts.path.rstrip("/")
        self._is_tls = parts.scheme == "https"
        self._ca_file = ca_file
        self._timeout = timeout

    async def ask(self, received: Received) -> AsyncGenerator[Op, None]:
        """The reply's head, the pieces of its body as they arrive, and how it ended.

        Raises:
            UpstreamError: No head came, or one that cannot be recorded.
        """
        request, reply = self._request(received), _Reply(received.method)
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                if self._is_tls:  # only now: asyncio forgets who is cancelled as TLS begins
                    trust = ssl.create_default_context(cafile=self._ca_file)
                    await writer.start_tls(trust, server_hostname=self._host)
            writer.write(request)
            while not reply.has_ended:
                async with asyncio.timeout(self._timeout):
                    data = await reader.read(65_536)
                for op in reply.feed(data):
                    yield op
        except (OSError, TimeoutError, httptools.HttpParserError) as error:
            if not reply.has_head:
                raise UpstreamError(f"{self.base_url} gave no reply: {error!r}") from error
            yield Reset() if isinstance(error, ConnectionResetError) else Fin()
        finally:
            if writer is not None:
                writer.transport.abort()  # over TLS, its close would wait for the upstream's

    def _request(self, received: Received) -> bytes:
        target = self._path + received.target
        if not target.startswith("/") or any(char <= " " for char in target):
            raise UpstreamError("the target is no path; send a path that begins with /")
        fields = [("host", self._authority)]
        fields += [(k, v) for k, v in received.headers if k not in _OF_ONE_CONNECTION]
        # What is compressed cannot be read in a recording, nor freed of secrets.
        fields += [("accept-encoding", "identity"), ("connection", "close")]
        if received.body or received.method in ("POST", "PUT", "PATCH"):
            fields.append(("content-length", str(len(received.body))))
        lines = [f"{received.method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + received.body


class _Reply:
    """A reply's bytes as operations."""

    def __init__(self, method: str) -> None:
        self._has_body = method != "HEAD"
        self._parser = httptools.HttpResponseParser(self)
        self._framing: Literal["chunked", "length", "close"] = "close"
        self._ops: list[Op] = []
        self._refusal: str | None = None
        self.has_head = False
        self.has_ended = False

    def feed(self, data: bytes) -> list[Op]:
        """What `data` says; empty is the end of the connection."""
        if data:
            self._parse(data)
            if self._refusal is not None:  # callbacks cannot raise it
                raise UpstreamError(self._refusal)
        elif not self.has_head:
            raise ConnectionError("it closed the connection")
        elif not self.has_ended:
            self._end(End() if self._framing == "close" else Fin())
        ops, self._ops = self._ops, []
        return ops

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refusal = "the reply changes to another protocol than HTTP"
        except httptools.HttpParserError:
            if not self.has_head:
                raise
            if not self.has_ended:  # what follows the end is no part of the reply
                self._end(Fin())

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        self._reason = b""
        self._fields: list[tuple[str, str]] = []

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.decode("latin-1"), value.decode("utf-8", "replace")))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self.has_head:
            return
        small = {name.lower(): value for name, value in self._fields}
        if small.get("content-encoding", "identity") != "identity":
            self._refusal = (
                f"the reply is encoded with {small['content-encoding']} although identity was "
                "asked for, so that its secrets cannot be removed"
            )
            return
        length = int(small["content-length"]) if "content-length" in small else None
        if "chunked" in small.get("transfer-encoding", ""):
            self._framing = "chunked"
        elif length is not None:
            self._framing = "length"
        fields = tuple(field for field in self._fields if field[0].lower() not in _OF_FRAMING)
        reason = self._reason.decode("latin-1")
        self._ops.append(Head(status, fields, reason, self._framing, length))
        self.has_head = True
        if not self._has_body:
            self._end(End())

    def on_body(self, data: bytes) -> None:
        if not self.has_ended:
            self._ops.append(Body(data))

    def on_message_complete(self) -> None:
        if self.has_head and not self.has_ended:
            self._end(End())

    def _end(self, op: Op) -> None:
        self.has_ended = True
        self._ops.append(op)
