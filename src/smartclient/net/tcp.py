"""What blocking and asyncio sockets have in common: addresses, socket options, readiness."""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

__all__ = [
    "Address",
    "Readiness",
    "check_connected",
    "check_unix_path",
    "numeric_addresses",
    "of_family",
    "socket_options_of",
    "start_connecting",
    "unix_address",
    "wait_for",
    "wait_for_any",
]

Address: TypeAlias = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | str]

_HAS_POLL = hasattr(select, "poll")
_PROBE_AFTER = 60  # seconds of silence
_CONNECTING = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}


def numeric_addresses(host: str, port: int) -> list[Address] | None:
    """The address that `host` is, without a look-up; `None` when it is a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):  # a NUL in it
            continue
        return [(family, (host, port) if family == socket.AF_INET else (host, port, 0, 0))]
    return None


def of_family(addresses: Iterable[Address], local_address: str) -> list[Address]:
    """Those that can be connected to from `local_address`."""
    family = socket.AF_INET6 if ":" in local_address else socket.AF_INET
    return [address for address in addresses if address[0] == family]


def unix_address(path: str) -> Address:
    """The address of a Unix socket."""
    return socket.AF_UNIX, path


def check_unix_path(path: str) -> None:
    """Raise a `ValueError` for a path that cannot be connected to, whatever is there."""
    if not hasattr(socket, "AF_UNIX"):
        raise ValueError("uds needs Unix sockets, which this system does not have")
    longest = 107 if sys.platform == "linux" else 103
    if not 0 < len(os.fsencode(path)) <= longest:
        raise ValueError(f"uds must be a path of 1 to {longest} bytes, not {len(path)}")


def socket_options_of(options: Iterable[Any]) -> tuple[tuple[int, int, int | bytes], ...]:
    """`options` once each was tried on a socket.

    Raises:
        TypeError: One is no level, option and value.
        ValueError: This system refuses one.
    """
    return tuple(_tried(number, option) for number, option in enumerate(options, 1))


def _tried(number: int, option: Any) -> tuple[int, int, int | bytes]:
    try:
        level, name, value = option
    except (TypeError, ValueError):
        level = name = value = None
    if not (isinstance(level, int) and isinstance(name, int) and isinstance(value, (int, bytes))):
        raise TypeError(
            f"socket_options {number} must be (level, option, value), as `setsockopt` takes them"
        )
    error: OSError | None = None
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.setsockopt(level, name, value)
                return level, name, value
        except OSError as refused:
            error = error or refused
    assert error is not None
    raise ValueError(
        f"socket_options {number}, {(level, name, value)}, is refused by this system: "
        f"{os.strerror(error.errno or 0)}"
    ) from error


def start_connecting(
    address: Address,
    local_address: str | None = None,
    options: Iterable[tuple[int, int, int | bytes]] = (),
) -> socket.socket:
    """A socket that connects to `address` while nobody waits for it.

    Args:
        local_address: IP address that it connects from.
        options: What it is set to, after our own options.

    Raises:
        OSError: It failed at once.
    """
    family, place = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if not isinstance(place, str):
            _prepare(sock)
        for level, option, value in options:
            sock.setsockopt(level, option, value)
        if local_address is not None:
            sock.bind((local_address, 0))
        failure = sock.connect_ex(place)
        # A Unix socket does not connect later: it says "again" when its queue is full.
        if failure not in _CONNECTING or (failure and isinstance(place, str)):
            raise OSError(failure, os.strerror(failure))
    except BaseException:
        sock.close()
        raise
    return sock


def check_connected(sock: socket.socket) -> None:
    """Raise the `OSError` for which a socket that can be written did not connect."""
    failure = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failure:
        raise OSError(failure, os.strerror(failure))


def _prepare(sock: socket.socket) -> None:
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


def wait_for_any(socks: Collection[socket.socket], timeout: float | None) -> list[socket.socket]:
    """Those of `socks` that can be written within `timeout` seconds, or have failed."""
    if not _HAS_POLL:
        _, ready, failed = select.select([], socks, socks, timeout)
        return list({*ready, *failed})
    by_number = {sock.fileno(): sock for sock in socks}
    poll = select.poll()
    for number in by_number:
        poll.register(number, select.POLLOUT)
    found = poll.poll(None if timeout is None else timeout * 1000.0)
    return [by_number[number] for number, _ in found]


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
