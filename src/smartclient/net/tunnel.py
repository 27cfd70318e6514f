"""How a proxy is asked for a way to an origin: CONNECT and SOCKS5, as steps without I/O.

Whoever drives them sends and receives, within the time for the whole connection. What a
proxy says is bounded; bytes that follow its yes are refused, because an origin says nothing
before it is spoken to.

Source: RFC 9110, section 9.3.6 (CONNECT); RFC 1928 (SOCKS5); RFC 1929 (user and password).
"""

from __future__ import annotations

import socket
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from .._call import Origin
from . import refusals
from .failures import BadReplyError
from .http1 import ReplyParser
from .proxy import Proxy
from .secret import SecretBytes
from .tcp import Address

if TYPE_CHECKING:
    from .._errors import ExchangeError
    from .tls import Trust

__all__ = ["NOT_THERE", "Handshake", "Receive", "SecureProxy", "Send", "connect", "socks"]


class Send(Struct, frozen=True):
    """Write all of it."""

    data: SecretBytes


class Receive(Struct, frozen=True):
    """Wait for bytes; answered with what has come, `b""` when the proxy has closed."""


class SecureProxy(Struct, frozen=True):
    """Shake hands with the proxy itself, as whoever talks to `host`.

    Answered with the protocol that ALPN chose, or `None`.
    """

    host: str
    trust: Trust


Handshake: TypeAlias = Generator[Send | Receive, Any, None]

NOT_THERE = frozenset({1, 2, 3, 4, 5, 6, 8})
"""Replies of SOCKS after which another address of the origin may be reached."""


def connect(origin: Origin, proxy: Proxy) -> Handshake:
    """Ask an HTTP proxy for a tunnel.

    Raises:
        ExchangeError: Of kind proxy or connect.
        OSError: The connection broke.
    """
    host = f"[{origin.host}]" if ":" in origin.host else _ascii(origin.host)
    yield Send(_connect_head(f"{host}:{origin.port}", proxy))
    parser = ReplyParser("CONNECT")
    while parser.status is None:
        data = yield Receive()
        try:
            parser.feed(data)
        except BadReplyError as error:
            raise refusals.not_tunnelled(origin, proxy, error) from error
    if not 200 <= parser.status < 300:
        raise refusals.refused_by_proxy(origin, proxy, parser.status)
    if parser.is_overrun:
        raise _early(origin, proxy)


def _connect_head(authority: str, proxy: Proxy) -> SecretBytes:
    lines = [f"CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in proxy.told()]
    return SecretBytes("".join((*lines, "\r\n")).encode("latin-1"))


def socks(
    origin: Origin, proxy: Proxy, address: Address | None
) -> Generator[Send | Receive, Any, int]:
    """Ask a SOCKS5 proxy for a way to `address`, or to the origin's name when it is `None`.

    Returns:
        What it has replied; 0: it leads there.

    Raises:
        ExchangeError: Of kind proxy or connect.
        OSError: The connection broke.
    """
    said = _Said(origin, proxy)
    methods = b"\x00" if proxy.login is None else b"\x00\x02"
    yield Send(SecretBytes(b"\x05%c" % len(methods) + methods))
    method = (yield from said.version(2, 5))[1]
    if method == 2 and proxy.login is not None:
        yield Send(_login(proxy))
        if (yield from said.version(2, 1))[1] != 0:
            raise refusals.login_refused(origin, proxy, "SOCKS user and password")
    elif method != 0:
        raise refusals.login_refused(origin, proxy, f"SOCKS method {method}")
    yield Send(SecretBytes(b"\x05\x01\x00" + _destination(origin, address)))
    reply, _, kind = (yield from said.version(4, 5))[1:]
    if reply != 0:
        return int(reply)
    # The address that the proxy connects from; of no use, but it has to be read.
    length = {1: 4, 4: 16}.get(kind)
    if length is None:
        if kind != 3:
            raise said.wrong(f"named an address of the unknown kind {kind}")
        length = (yield from said.take(1))[0]
    yield from said.take(length + 2)
    if said.left:
        raise _early(origin, proxy)
    return 0


def _login(proxy: Proxy) -> SecretBytes:
    login = proxy.login
    assert login is not None
    user, password = login.user, login.password
    return SecretBytes(b"\x01%c%b%c%b" % (len(user), user, len(password), password))


def _destination(origin: Origin, address: Address | None) -> bytes:
    port = origin.port.to_bytes(2, "big")
    if address is not None:
        family, place = address
        kind = b"\x01" if family == socket.AF_INET else b"\x04"
        return kind + socket.inet_pton(family, str(place[0]).partition("%")[0]) + port
    name = _ascii(origin.host).encode()
    return b"\x03%c" % len(name) + name + port


def _ascii(host: str) -> str:
    """`host` in the form of the domain name system, which has 253 characters at most."""
    name = host if host.isascii() else host.encode("idna").decode()
    if len(name) > 253:
        raise UnicodeError(f"a host name of {len(name)} characters")
    return name


class _Said:
    """What a SOCKS proxy has said and was not taken yet."""

    def __init__(self, origin: Origin, proxy: Proxy) -> None:
        self._origin, self._proxy = origin, proxy
        self.left = b""

    def take(self, size: int) -> Generator[Receive, bytes, bytes]:
        """The next `size` bytes."""
        while len(self.left) < size:
            data = yield Receive()
            if not data:
                raise self.wrong("closed the connection in the middle of its handshake")
            self.left += data
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def version(self, size: int, wanted: int) -> Generator[Receive, bytes, bytes]:
        """The next `size` bytes, which begin with this version."""
        taken = yield from self.take(size)
        if taken[0] != wanted:
            raise self.wrong(f"answered with version {taken[0]} where {wanted} was due")
        return taken

    def wrong(self, what: str) -> ExchangeError:
        error = BadReplyError("closed" if what.startswith("closed") else "protocol", what)
        return refusals.not_tunnelled(self._origin, self._proxy, error)


def _early(origin: Origin, proxy: Proxy) -> ExchangeError:
    error = BadReplyError("protocol", "sent bytes before anything was asked of the origin")
    return refusals.not_tunnelled(origin, proxy, error)
