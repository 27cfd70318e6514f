"""TLS inside TLS: the way through an https proxy to an https origin.

A socket of `ssl` cannot be wrapped again, so both layers work on buffers, for blocking code
too.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any

from .._call import Origin
from .pool import Pool
from .sockets import SocketConnection
from .tls import TlsBuffer

__all__ = ["BufferConnection", "NestedTls"]

_RECORD = 16 * 1024
"""Most bytes of one TLS record (RFC 8446, section 5.1)."""


class NestedTls(TlsBuffer):
    """TLS whose bytes another one carries, which was shaken before."""

    __slots__ = ("_has_ended", "_outer")

    def __init__(self, outer: TlsBuffer, context: ssl.SSLContext, host: str) -> None:
        super().__init__(context, host)
        self._outer = outer
        self._has_ended = False

    def shake(self) -> bool:
        self._carry()
        return super().shake()

    def put(self, data: bytes) -> None:
        self._outer.put(data)

    def decrypted(self) -> bytes:
        self._carry()
        return super().decrypted()

    def pending(self) -> bytes:
        data = super().pending()
        if data:
            self._outer.encrypt(data)
        return self._outer.pending()

    def _carry(self) -> None:
        data = self._outer.decrypted()
        if data:
            super().put(data)
        if self._outer.is_at_end and not self._has_ended:
            self._has_ended = True
            super().put(b"")


class BufferConnection(SocketConnection):
    """A blocking connection over TLS that can carry another TLS."""

    __slots__ = ("_tls",)

    def __init__(
        self, sock: socket.socket, origin: Origin, pool: Pool[SocketConnection], tls: TlsBuffer
    ) -> None:
        super().__init__(sock, origin, pool)
        self._tls = tls

    @property
    def protocol(self) -> str | None:
        """What ALPN chose, once hands are shaken."""
        return self._tls.protocol

    @property
    def carrier(self) -> tuple[Any, Any]:
        return self.sock, self._tls.tls

    def nest(self, context: ssl.SSLContext, host: str) -> None:
        """Begin a TLS with `host` inside the one that is there."""
        self._tls = NestedTls(self._tls, context, host)

    def shake(self, left: Callable[[], float | None]) -> None:
        """Shake hands within the seconds that `left` grants; it raises when there are none.

        Raises:
            OSError: It failed; `ssl.SSLError` is one, and `TimeoutError`.
        """
        try:
            while not self._tls.shake():
                self._flush(left())
                data = super()._receive(left())
                if not data:
                    raise ConnectionResetError("the peer closed during the handshake")
                self._tls.put(data)
            self._flush(left())
        except ssl.SSLError:
            with contextlib.suppress(OSError):
                self._flush(0.0)  # the alert that says what is wrong
            raise

    def _receive(self, timeout: float | None) -> bytes:
        while True:
            data = self._tls.decrypted()
            if data or self._tls.is_at_end:
                return data
            self._tls.put(super()._receive(timeout))

    def _send(self, data: bytes | memoryview, timeout: float | None) -> int:
        # A record at a time: one that did not get out whole says nothing to the peer.
        piece = memoryview(data)[:_RECORD]
        self._tls.encrypt(piece)
        self._flush(timeout)
        return len(piece)

    def _flush(self, timeout: float | None) -> None:
        rest = memoryview(self._tls.pending())
        while rest:
            rest = rest[super()._send(rest, timeout) :]
