"""Where a connection comes in: greeted, secured, and handed to HTTP/1.1 or HTTP/2.

Which of the two it is, ALPN tells, or without TLS the first bytes.

Source: RFC 9113, sections 3.2 to 3.4 (ALPN, prior knowledge, the connection preface).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from .hooks import Connection, Front, Service
from .ops import Raw, Script
from .playing import perform

__all__ = ["Door", "Fronts"]

_PREFACE = b"PRI * HTTP/2.0"
_MOST_HELD = 2**20  # bytes that come during a greeting
_SHUTDOWN_SECONDS = 0.5  # for a client's close_notify
_HANDSHAKE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Fronts:
    """Who speaks which protocol; `None` is not spoken."""

    http1: Front
    http2: Front | None = None


class Door(asyncio.Protocol):
    """Takes one connection, and hands it to the front that speaks its protocol.

    Args:
        greeting: Played before anything is read, TLS included.
        tls: `None` is plain.
        made: Told of the connection's transport.
    """

    def __init__(
        self,
        connection: Connection,
        service: Service,
        fronts: Fronts,
        *,
        tls: ssl.SSLContext | None = None,
        greeting: Script = (),
        made: Callable[[asyncio.Transport], object] = id,
    ) -> None:
        self._connection = connection
        self._service = service
        self._fronts = fronts
        self._tls = tls
        self._greeting = greeting
        self._made = made
        self._seen = b""
        self._task: asyncio.Task[None] | None = None
        self._reason = "client"
        self._is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._made(transport)
        if self._greeting or self._tls is not None:
            if self._tls is not None:
                transport.pause_reading()  # the handshake's bytes are not for us
            self._task = asyncio.ensure_future(self._open())
        elif self._fronts.http2 is None:
            self._enter(self._fronts.http1)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        if self._task is None:
            self._choose()
        elif len(self._seen) > _MOST_HELD:
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        if self._task is not None:
            self._task.cancel()
        reason = "stopped" if self._service.is_stopping else self._reason
        self._service.closed(self._connection, reason)

    async def _open(self) -> None:
        await self._greet()
        if self._transport.is_closing():
            return
        if self._tls is None:
            self._task = None
            self._transport.resume_reading()
            self._choose()
            return
        if (secured := await self._secure(self._tls)) is not None:
            self._task, self._transport = None, secured
            tls = secured.get_extra_info("ssl_object")
            is_http2 = tls.selected_alpn_protocol() == "h2"
            self._enter(self._fronts.http2 if is_http2 else self._fronts.http1)

    async def _greet(self) -> None:
        for op in self._greeting:
            if isinstance(op, Raw):
                self._transport.write(op.data)
            else:
                await perform(op, self._transport, self._service.clock, self._closes)
            if self._transport.is_closing():
                return

    def _closes(self, reason: str) -> None:
        self._reason = reason

    async def _secure(self, tls: ssl.SSLContext) -> asyncio.Transport | None:
        """The same connection under TLS; `None` when the handshake fails."""
        raw, secured = self._transport, None
        try:
            with contextlib.suppress(OSError):  # ssl.SSLError is one: the client goes away
                secured = await asyncio.get_running_loop().start_tls(
                    raw,
                    self,
                    tls,
                    server_side=True,
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )
        finally:
            if secured is None and not self._is_gone:
                # A handshake that fails, or is aborted, tells its protocol nothing.
                self._reason, self._task = "tls", None
                raw.abort()
                self.connection_lost(None)
        return None if self._is_gone else secured

    def _choose(self) -> None:
        if self._fronts.http2 is not None and _PREFACE.startswith(self._seen[: len(_PREFACE)]):
            if len(self._seen) >= len(_PREFACE):
                self._enter(self._fronts.http2)
        else:
            self._enter(self._fronts.http1)

    def _enter(self, front: Front | None) -> None:
        front = front or self._fronts.http1
        self._connection.protocol = "h2" if front is self._fronts.http2 else "http/1.1"
        inner = front(self._connection, self._service)
        self._transport.set_protocol(inner)
        inner.connection_made(self._transport)
        if self._seen:
            inner.data_received(self._seen)
