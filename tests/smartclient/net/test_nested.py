"""TLS inside TLS, over buffers and over a socket pair."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest
import trustme

from smartclient._call import Origin
from smartclient.net.nested import BufferConnection, NestedTls
from smartclient.net.pool import Pool
from smartclient.net.tls import TlsBuffer

ORIGIN = Origin("https", "a.example", 443)


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A client's and a server's, for a.example and for p.example."""
    authority = trustme.CA()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(client)
    authority.issue_cert("a.example", "p.example").configure_cert(server)
    return client, server


class Peer:
    """The other end of both layers."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.outer_in, self.outer_out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.inner_in, self.inner_out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.outer = context.wrap_bio(self.outer_in, self.outer_out, server_side=True)
        self.inner = context.wrap_bio(self.inner_in, self.inner_out, server_side=True)

    def take(self, data: bytes, layer: ssl.SSLObject) -> bytes:
        """Take what came, do what can be done, and return what is to be sent."""
        self.outer_in.write(data)
        try:
            if layer is self.outer:
                layer.do_handshake()
            else:
                self.inner_in.write(self.outer.read(65536))
                layer.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self.sealed()

    def sealed(self) -> bytes:
        if self.inner_out.pending:
            self.outer.write(self.inner_out.read())
        return self.outer_out.read()


def shaken(contexts) -> tuple[NestedTls, Peer]:
    client, server = contexts
    peer, outer = Peer(server), TlsBuffer(client, "p.example")
    while not outer.shake():
        outer.put(peer.take(outer.pending(), peer.outer))
    peer_said = peer.take(outer.pending(), peer.outer)
    outer.put(peer_said)
    nested = NestedTls(outer, client, "a.example")
    while not nested.shake():
        nested.put(peer.take(nested.pending(), peer.inner))
    nested.put(peer.take(nested.pending(), peer.inner))
    return nested, peer


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_bytes_come_through_both_layers_in_whatever_pieces(contexts, size):
    nested, peer = shaken(contexts)
    peer.inner.write(b"hello " * 2_000)
    sealed = peer.sealed()

    opened = b""
    for start in range(0, len(sealed), size):
        nested.put(sealed[start : start + size])
        opened += nested.decrypted()

    assert opened == b"hello " * 2_000
    assert not nested.is_at_end


def test_what_is_said_is_sealed_twice(contexts):
    nested, peer = shaken(contexts)

    nested.encrypt(b"hello")
    peer.outer_in.write(nested.pending())
    peer.inner_in.write(peer.outer.read(65536))

    assert peer.inner.read() == b"hello"


def test_the_end_of_the_outer_one_is_the_end(contexts):
    nested, peer = shaken(contexts)
    peer.inner.write(b"last")

    nested.put(peer.sealed())
    nested.put(b"")

    assert (nested.decrypted(), nested.is_at_end) == (b"last", True)


class Threaded:
    """A connection over a socket pair, and a thread that serves its other end."""

    def __init__(self, contexts, serve) -> None:
        self.ours, theirs = socket.socketpair()
        self.ours.setblocking(False)
        self._context = contexts[1]
        self._thread = threading.Thread(target=self._serve, args=(theirs, serve))
        self._thread.start()
        tls = TlsBuffer(contexts[0], "p.example")
        self.connection = BufferConnection(self.ours, ORIGIN, Pool(1), tls)

    def _serve(self, theirs: socket.socket, serve) -> None:
        with self._context.wrap_socket(theirs, server_side=True) as peer:
            serve(peer)

    def done(self) -> None:
        self.ours.close()
        self._thread.join(10)


def within() -> float:
    return 5.0


def test_a_large_request_is_written_record_by_record(contexts):
    seen = []

    def serve(peer):
        while len(b"".join(seen)) < 100_000:
            seen.append(peer.recv(65536))

    pair = Threaded(contexts, serve)
    pair.connection.shake(within)
    rest = memoryview(b"x" * 100_000)
    while rest:
        rest = rest[pair.connection.send(rest, 5.0) :]
    pair.done()

    assert b"".join(seen) == b"x" * 100_000


def test_session_tickets_do_not_make_it_stale_but_bytes_and_the_end_do(contexts):
    told = threading.Event()

    def serve(peer):
        peer.sendall(b"hello")
        told.wait(10)

    pair = Threaded(contexts, serve)
    pair.connection.shake(within)
    first = pair.connection.receive(5.0)
    quiet = pair.connection.is_stale()
    told.set()
    pair.connection.can_read(5.0)

    assert (first, quiet, pair.connection.is_stale()) == (b"hello", False, True)
    pair.done()


def test_silence_is_a_timeout(contexts):
    told = threading.Event()
    pair = Threaded(contexts, lambda peer: told.wait(10))
    pair.connection.shake(within)

    with pytest.raises(TimeoutError):
        pair.connection.receive(0.01)

    told.set()
    pair.done()


def test_a_certificate_that_is_not_accepted_is_told_to_the_peer(contexts):
    alerts = []

    def serve(sock, context=contexts[1]):
        try:
            with context.wrap_socket(sock, server_side=True) as peer:
                peer.recv(1)
        except ssl.SSLError as error:
            alerts.append(error.reason)

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    thread = threading.Thread(target=serve, args=(theirs,))
    thread.start()
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    connection = BufferConnection(ours, ORIGIN, Pool(1), TlsBuffer(stranger, "p.example"))

    with pytest.raises(ssl.SSLCertVerificationError):
        connection.shake(within)
    ours.close()
    thread.join(10)

    assert alerts == ["TLSV1_ALERT_UNKNOWN_CA"]


def test_a_peer_that_closes_in_the_handshake_has_reset_it(contexts):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.close()
    connection = BufferConnection(ours, ORIGIN, Pool(1), TlsBuffer(contexts[0], "p.example"))

    with pytest.raises(OSError, match=r"closed during the handshake|Broken pipe"), ours:
        connection.shake(within)


def test_a_cut_one_is_stale_and_so_is_one_that_broke(contexts):
    told = threading.Event()
    pair = Threaded(contexts, lambda peer: told.wait(10))
    pair.connection.shake(within)
    told.set()
    pair.connection.can_read(5.0)
    pair.connection._tls.put(b"no record of TLS at all")

    assert pair.connection.is_stale()
    pair.connection.cut()
    assert pair.connection.is_stale()
    pair.done()
