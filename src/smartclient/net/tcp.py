"""What blocking and asyncio sockets have in common: addresses, socket options, readiness."""

from __future__ import annotations

import select
import socket
import sys
from collections.abc import Iterable
from typing import Any, TypeAlias

__all__ = ["Address", "Readiness", "addresses_of", "numeric_addresses", "prepare", "wait_for"]

Address: TypeAlias = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]

_HAS_POLL = hasattr(select, "poll")
_PROBE_AFTER = 60  # seconds of silence


def numeric_addresses(host: str, port: int) -> list[Address] | None:
    """The address that `host` is, without a look-up; `None` when it is a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port) if family == socket.AF_INET else (host, port, 0, 0))]
    return None


def addresses_of(found: Iterable[tuple[Any, ...]]) -> list[Address]:
    """What `getaddrinfo` found, in its order of preference."""
    return [(family, address) for family, _, _, _, address in found]


def prepare(sock: socket.socket) -> None:
    """Send small writes at once, and notice a peer that is gone."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Linux and Windows say TCP_KEEPIDLE, macOS TCP_KEEPALIVE; NATs forget after 120 to 350 s
    # (openai/openai-python#3269), so the probes begin long before.
    idle = getattr(socket, "TCP_KEEPIDLE", None)
    if idle is None and sys.platform == "darwin":
        idle = getattr(socket, "TCP_KEEPALIVE", 0x10)
    if idle is not None:
        sock.setsockopt(socket.IPPROTO_TCP, idle, _PROBE_AFTER)
    if hasattr(socket, "TCP_KEEPINTVL"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_AFTER // 4)


def wait_for(sock: socket.socket, *, write: bool, timeout: float | None) -> bool:
    """Wait until `sock` can be read, or written; false when `timeout` seconds went by."""
    if _HAS_POLL:
        poll = select.poll()
        poll.register(sock, select.POLLOUT if write else select.POLLIN)
        return bool(poll.poll(None if timeout is None else timeout * 1000.0))
    readers, writers = ([], [sock]) if write else ([sock], [])
    return any(select.select(readers, writers, readers + writers, timeout))


class Readiness:
    """Tells whether a socket can be read, for as long as it is open."""

    __slots__ = ("_poll", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._poll: select.poll | None = None
        if _HAS_POLL:
            self._poll = select.poll()
            self._poll.register(sock, select.POLLIN)

    def within(self, timeout: float | None) -> bool:
        """Wait at most `timeout` seconds for bytes, or for the end."""
        if self._poll is None:
            return wait_for(self._sock, write=False, timeout=timeout)
        return bool(self._poll.poll(None if timeout is None else timeout * 1000.0))
