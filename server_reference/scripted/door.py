"""Where a connection comes in: HTTP/1.1 or HTTP/2, by ALPN or by the first bytes.

Source: RFC 9113, sections 3.2 to 3.4 (ALPN, prior knowledge, the connection preface).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .hooks import Connection, Front, Service

__all__ = ["Door"]

_PREFACE = b"PRI * HTTP/2.0"


class Door(asyncio.Protocol):
    """Takes one connection, and hands it to the front that speaks its protocol.

    Args:
        opened: Notes a connection.
        http1: Makes the front for HTTP/1.1.
        http2: Makes the one for HTTP/2; `None` does not speak it.
        greets: Whether HTTP/1.1's front begins before the first byte has come.
    """

    def __init__(
        self,
        service: Service,
        opened: Callable[[asyncio.Transport], Connection],
        *,
        http1: Front,
        http2: Front | None,
        greets: bool = False,
    ) -> None:
        self._service = service
        self._opened = opened
        self._http1 = http1
        self._http2 = http2
        self._greets = greets
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connection = self._opened(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            is_http2 = tls.selected_alpn_protocol() == "h2"
            self._enter(self._http2 if is_http2 else self._http1)
        elif self._greets or self._http2 is None:
            self._enter(self._http1)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        if not self._seen.startswith(_PREFACE[: len(self._seen)]):
            self._enter(self._http1)
        elif len(self._seen) >= len(_PREFACE):
            self._enter(self._http2)

    def connection_lost(self, error: Exception | None) -> None:
        self._service.closed(self._connection, "stopped" if self._service.is_stopping else "client")

    def _enter(self, front: Front | None) -> None:
        front = front or self._http1
        self._connection.protocol = "h2" if front is self._http2 else "http/1.1"
        inner = front(self._connection, self._service)
        self._transport.set_protocol(inner)
        inner.connection_made(self._transport)
        if self._seen:
            inner.data_received(self._seen)
