"""The ways in which a server's connection ends, beside an orderly close.

Source: socket(7), SO_LINGER; RFC 8446 section 6.1 (close_notify).
"""

from __future__ import annotations

import asyncio
import socket
import struct

__all__ = ["close_silently", "half_close", "reset"]

_LINGER_NOT = struct.pack("ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """Send RST in place of FIN."""
    _socket(transport).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    transport.abort()


def half_close(transport: asyncio.Transport) -> None:
    """Send FIN, under TLS without a close_notify, and keep reading."""
    _socket(transport).shutdown(socket.SHUT_WR)


def close_silently(transport: asyncio.Transport) -> None:
    """Close the TCP connection; TLS, if there is any, is not told."""
    transport.abort()


def _socket(transport: asyncio.Transport) -> socket.socket:
    found: socket.socket = transport.get_extra_info("socket")
    return found
