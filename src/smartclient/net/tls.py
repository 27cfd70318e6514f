"""TLS: whom to trust, and the encrypted forms of a blocking and an asyncio connection.

Imported only when the first https origin is called: `ssl` and a context cost more than a
whole call over plain HTTP.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from .._call import Origin
from .._errors import ExchangeError, ExchangeKind
from .failures import reason_of
from .options import ALPN, HttpVersion, Identity, NetOptions
from .pool import Pool
from .proxy import Proxy
from .sockets import RECEIVE, SocketConnection
from .tcp import wait_for

__all__ = ["TlsBuffer", "TlsConnection", "Trust", "tls_failure"]


class Trust(Struct, frozen=True):
    """Whose certificates are accepted; two calls share a connection only if this is equal.

    Attributes:
        source: What an error message calls it.
        is_system: Whether the operating system's list is believed.
        identity: Who we say that we are.
        own: The user's own context, compared by identity and used as it is.
        alpn: The protocols that are offered, the best first, where the context is ours.
    """

    source: str
    ca_file: str | None = None
    ca_dir: str | None = None
    is_system: bool = False
    identity: Identity | None = None
    own: ssl.SSLContext | None = None
    alpn: tuple[str, ...] = ("http/1.1",)

    @classmethod
    def of(cls, options: NetOptions, version: HttpVersion = "1.1") -> Trust:
        """What `options` and, where they are silent, the environment say.

        Raises:
            ValueError: A file or folder that is not there.
        """
        if options.ssl_context is not None:
            return cls("your ssl_context", own=options.ssl_context)
        usual = cls("", identity=options.client_cert, alpn=tuple(ALPN[version]))
        if options.ca_file is not None:
            return replace(usual, source="ca_file", ca_file=_existing(options.ca_file, "ca_file"))
        if options.trust_store == "system":
            return replace(usual, source="the system's list", is_system=True)
        file = folder = None
        if options.trust_env:  # never held whole, since the frames of an error show it
            file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        if file or folder:
            source = " and ".join(
                name for name, value in (("SSL_CERT_FILE", file), ("SSL_CERT_DIR", folder)) if value
            )
            return replace(
                usual,
                source=source,
                ca_file=_existing(file, "SSL_CERT_FILE") if file else None,
                ca_dir=_folders(folder, "SSL_CERT_DIR") if folder else None,
            )
        import certifi

        return replace(usual, source="certifi's list", ca_file=certifi.where())

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


def _folders(paths: str, setting: str) -> str:
    """A list of folders, as OpenSSL takes it, some of which may be missing."""
    if not any(map(os.path.isdir, paths.split(os.pathsep))):
        raise ValueError(f"{setting} names {paths!r}, which does not exist or is no folder")
    return paths


_known: dict[Trust, ssl.SSLContext] = {}


def _context(trust: Trust) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(trust.alpn))
    if trust.is_system:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(trust.ca_file, trust.ca_dir)
        except OSError as error:
            raise ValueError(
                f"{trust} cannot be used ({reason_of(error)}); it must be a PEM file with the "
                "certificates of the authorities to trust"
            ) from None
    if trust.identity is not None:
        _identify(context, trust.identity)
    return context


def _identify(context: ssl.SSLContext, identity: Identity) -> None:
    password = None if identity.password is None else bytes(identity.password)
    _existing(identity.cert_file, "client_cert")
    if identity.key_file is not None:
        _existing(identity.key_file, "the key of client_cert")
    try:
        # An empty one instead of none: else OpenSSL would ask for it at the terminal.
        context.load_cert_chain(identity.cert_file, identity.key_file, password or b"")
    except OSError as error:  # `ssl.SSLError` is one
        raise ValueError(
            f"client_cert {identity.cert_file!r} cannot be used ({reason_of(error)}); it must be "
            "a PEM file with the certificate and its chain, and the key in it or beside it, with "
            "the right password"
        ) from None


_MOST_SESSIONS = 256  # of one context

_sessions: WeakKeyDictionary[ssl.SSLContext, dict[str, ssl.SSLSession]] = WeakKeyDictionary()


def _session_with(context: ssl.SSLContext, host: str) -> ssl.SSLSession | None:
    """What shortens the next handshake with `host`."""
    return _sessions.get(context, {}).get(host)


def _keep_session(context: ssl.SSLContext, host: str, session: ssl.SSLSession | None) -> None:
    if session is None or not session.has_ticket:
        return
    known = _sessions.setdefault(context, {})
    known.pop(host, None)
    known[host] = session
    if len(known) > _MOST_SESSIONS:
        known.pop(next(iter(tuple(known))), None)  # a copy: other threads keep theirs meanwhile


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

    __slots__ = ("_host", "_is_session_kept")

    sock: ssl.SSLSocket
    _host: str
    _is_session_kept: bool

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
        wrapped = context.wrap_socket(
            sock,
            server_hostname=host,
            do_handshake_on_connect=False,
            session=_session_with(context, host),
        )
        try:
            wrapped.setblocking(False)
            connection = cls(wrapped, origin, pool)
            connection._host, connection._is_session_kept = host, False
            connection._shake(left)
        except BaseException:
            wrapped.close()
            raise
        return connection

    def _shake(self, left: Callable[[], float | None]) -> None:
        while True:
            try:
                self.sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                is_write = False
            except ssl.SSLWantWriteError:
                is_write = True
            self._ready(left(), is_write=is_write)
            left()

    def _ready(self, timeout: float | None, *, is_write: bool) -> bool:
        """Wait; not while an exception is handled, which an interrupt would show as its cause."""
        if is_write:
            return wait_for(self.sock, write=True, timeout=timeout)
        return self.can_read(timeout)

    def _receive(self, timeout: float | None) -> bytes:
        while True:
            try:
                data = self.sock.recv(RECEIVE)
                if not self._is_session_kept:
                    # With TLS 1.3 the tickets come after the handshake, before the first byte.
                    self._is_session_kept = True
                    _keep_session(self.sock.context, self._host, self.sock.session)
                return data
            except ssl.SSLWantReadError:
                is_write = False
            except ssl.SSLWantWriteError:
                is_write = True
            if not self._ready(timeout, is_write=is_write):
                raise TimeoutError

    def _send(self, data: bytes | memoryview, timeout: float | None) -> int:
        while True:
            try:
                return self.sock.send(data)
            except ssl.SSLWantReadError:
                is_write = False
            except ssl.SSLWantWriteError:
                is_write = True
            if not self._ready(timeout, is_write=is_write):
                raise TimeoutError


class TlsBuffer:
    """TLS between two buffers, for a transport that carries bytes and knows nothing of it."""

    __slots__ = ("_host", "_incoming", "_is_session_kept", "_outgoing", "_tls", "is_at_end")

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_hostname=host,
            session=_session_with(context, host),
        )
        self._host, self._is_session_kept = host, False
        self.is_at_end = False

    @property
    def tls(self) -> ssl.SSLObject:
        """To look at only."""
        return self._tls

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

    @property
    def protocol(self) -> str | None:
        """What ALPN chose, once hands are shaken."""
        return self._tls.selected_alpn_protocol()

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
        if pieces and not self._is_session_kept:
            self._is_session_kept = True
            _keep_session(self._tls.context, self._host, self._tls.session)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def encrypt(self, data: bytes | memoryview) -> None:
        """Take what is to be said."""
        self._tls.write(data)

    def pending(self) -> bytes:
        """What has to be written to the transport now."""
        return self._outgoing.read()
