"""TLS: whom to trust, and the encrypted forms of a blocking and an asyncio connection.

Imported only when the first https origin is called: `ssl` and a context cost more than a
whole call over plain HTTP.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable

from msgspec import Struct

from .._call import Origin
from .._errors import ExchangeError, ExchangeKind
from .options import NetOptions
from .pool import Pool
from .proxy import Proxy
from .sockets import RECEIVE, SocketConnection
from .tcp import wait_for

__all__ = ["TlsBuffer", "TlsConnection", "Trust", "tls_failure"]


class Trust(Struct, frozen=True):
    """Whose certificates are accepted; two calls share a connection only if this is equal.

    Attributes:
        source: What an error message calls it.
        own: The user's own context, compared by identity.
    """

    source: str
    ca_file: str | None = None
    ca_dir: str | None = None
    own: ssl.SSLContext | None = None

    @classmethod
    def of(cls, options: NetOptions) -> Trust:
        """What `options` and, where they are silent, the environment say.

        Raises:
            ValueError: A file or folder that is not there.
        """
        if options.ssl_context is not None:
            return cls("your ssl_context", own=options.ssl_context)
        if options.ca_file is not None:
            return cls("ca_file", _existing(options.ca_file, "ca_file"))
        env = os.environ if options.trust_env else {}
        file, folder = env.get("SSL_CERT_FILE"), env.get("SSL_CERT_DIR")
        if file or folder:
            source = " and ".join(
                name for name, value in (("SSL_CERT_FILE", file), ("SSL_CERT_DIR", folder)) if value
            )
            return cls(
                source,
                _existing(file, "SSL_CERT_FILE") if file else None,
                _existing(folder, "SSL_CERT_DIR") if folder else None,
            )
        import certifi

        return cls("certifi's list", certifi.where())

    def context(self) -> ssl.SSLContext:
        """The context for this trust; the same one every time."""
        known = self.known_context()
        if known is None:
            # Built once per setting: reading the list of authorities takes 20 ms.
            known = _known.setdefault(self, _context(self))
        return known

    def known_context(self) -> ssl.SSLContext | None:
        """The context, where there is one already."""
        return self.own if self.own is not None else _known.get(self)

    def __str__(self) -> str:
        places = [place for place in (self.ca_file, self.ca_dir) if place]
        return f"{self.source} ({', '.join(places)})" if places else self.source


def _existing(path: str, setting: str) -> str:
    if not os.path.exists(path):  # noqa: PTH110
        raise ValueError(f"{setting} names {path!r}, which does not exist")
    return path


_known: dict[Trust, ssl.SSLContext] = {}


def _context(trust: Trust) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(trust.ca_file, trust.ca_dir)
    return context


def tls_failure(
    origin: Origin, error: Exception, trust: Trust, via: Proxy | None = None
) -> ExchangeError:
    """The error for a handshake that failed; `trust` says who was believed.

    Args:
        via: The proxy that the handshake was with, on the way to `origin`.
    """
    peer = origin if via is None else f"the proxy {via}"
    kind: ExchangeKind = "tls"
    if isinstance(error, ssl.SSLCertVerificationError):
        kind = "certificate"  # trying again cannot help
        message = (
            f"the certificate of {peer} is not accepted: {error.verify_message} "
            f"(trusted: {trust}); set ca_file= or SSL_CERT_FILE to the authority that signed it"
        )
    else:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
        message = (
            f"no TLS with {peer}: {reason or type(error).__name__}; "
            "check that this port speaks https"
        )
    return ExchangeError(message, kind=kind, origin=str(origin))


class TlsConnection(SocketConnection):
    """A blocking connection over TLS."""

    __slots__ = ()

    sock: ssl.SSLSocket

    @classmethod
    def open(
        cls,
        sock: socket.socket,
        host: str,
        origin: Origin,
        pool: Pool[SocketConnection],
        trust: Trust,
        left: Callable[[], float | None],
    ) -> TlsConnection:
        """Shake hands within the seconds that `left` grants; it raises when there are none."""
        context = trust.context()
        wrapped = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        try:
            wrapped.setblocking(False)
            connection = cls(wrapped, origin, pool)
            connection._shake(left)
        except BaseException:
            wrapped.close()
            raise
        return connection

    def _shake(self, left: Callable[[], float | None]) -> None:
        while True:
            try:
                self.sock.do_handshake()
            except ssl.SSLWantReadError:
                self.can_read(left())
            except ssl.SSLWantWriteError:
                wait_for(self.sock, write=True, timeout=left())
            else:
                return
            left()

    def is_stale(self) -> bool:
        if self.is_cut:
            return True
        if not self.can_read(0.0):
            return False
        # Session tickets make an idle connection readable too, without anything to read.
        try:
            self.sock.recv(1)
        except ssl.SSLWantReadError:
            return False
        except OSError:
            return True
        return True

    def _receive(self, timeout: float | None) -> bytes:
        while True:
            try:
                return self.sock.recv(RECEIVE)
            except ssl.SSLWantReadError:
                if not self.can_read(timeout):
                    raise TimeoutError from None
            except ssl.SSLWantWriteError:
                if not wait_for(self.sock, write=True, timeout=timeout):
                    raise TimeoutError from None

    def _send(self, data: bytes | memoryview, timeout: float | None) -> int:
        while True:
            try:
                return self.sock.send(data)
            except ssl.SSLWantWriteError:
                if not wait_for(self.sock, write=True, timeout=timeout):
                    raise TimeoutError from None
            except ssl.SSLWantReadError:
                if not self.can_read(timeout):
                    raise TimeoutError from None


class TlsBuffer:
    """TLS between two buffers, for a transport that carries bytes and knows nothing of it."""

    __slots__ = ("_incoming", "_outgoing", "_tls", "is_at_end")

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.is_at_end = False

    def shake(self) -> bool:
        """Go on with the handshake; true once it is done.

        Raises:
            ssl.SSLError: It failed.
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def put(self, data: bytes) -> None:
        """Take what came from the transport; empty data is its end."""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def decrypted(self) -> bytes:
        """What the peer has said so far and was not asked for before."""
        pieces: list[bytes] = []
        while not self.is_at_end:
            try:
                piece = self._tls.read(RECEIVE)
            except ssl.SSLWantReadError:
                break
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                piece = b""
            if piece:
                pieces.append(piece)
            else:
                self.is_at_end = True
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def encrypt(self, data: bytes | memoryview) -> None:
        """Take what is to be said."""
        self._tls.write(data)

    def pending(self) -> bytes:
        """What has to be written to the transport now."""
        return self._outgoing.read()
