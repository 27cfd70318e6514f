"""A server on loopback that does byte for byte what a test tells it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType

__all__ = ["Peer", "RawServer", "forever", "reply"]

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
"""A head after which chunks follow."""


def reply(body: bytes = b"ok", *fields: bytes, status: bytes = b"200 OK") -> bytes:
    """A reply with a length, as an ordinary server would write it."""
    lines = [b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.number = number
        self._buffer = b""

    def request(self) -> bytes | None:
        """The next request, head and body; `None` when the client has closed."""
        while b"\r\n\r\n" not in self._buffer:
            if not self._more():
                return None
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        lower = head.lower()
        if b"content-length: " in lower:
            length = int(lower.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            while len(rest) < length and self._more():
                rest = self._buffer.partition(b"\r\n\r\n")[2]
        elif b"transfer-encoding: chunked" in lower:
            while not rest.endswith(b"0\r\n\r\n") and self._more():
                rest = self._buffer.partition(b"\r\n\r\n")[2]
        self._buffer = b""
        return head + b"\r\n\r\n" + rest

    def head(self) -> bytes:
        """The head of the next request only; its body stays unread."""
        while b"\r\n\r\n" not in self._buffer and self._more():
            pass
        return self._buffer.partition(b"\r\n\r\n")[0]

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def until_closed(self) -> None:
        """Return when the client has closed, with FIN or RST."""
        with contextlib.suppress(OSError):
            while self.sock.recv(65536):
                pass

    def _more(self) -> bool:
        try:
            data = self.sock.recv(65536)
        except OSError:
            return False
        self._buffer += data
        return bool(data)


Script = Callable[[Peer], None]


def forever(answer: bytes | Callable[[bytes], bytes]) -> Script:
    """Answer every request on every connection."""

    def script(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            peer.send(answer(request) if callable(answer) else answer)

    return script


class RawServer:
    """Plays `script` once for each connection, in a thread of its own.

    Attributes:
        num_connections: How many were accepted.
        num_closed: How many scripts have ended, by themselves or because the client left.
    """

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}/v1/messages"
        self.num_connections = 0
        self.num_closed = 0
        self.changed = threading.Condition()
        self._peers: list[Peer] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> RawServer:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(10)
        for peer in self._peers:
            peer.close()
        for thread in self._threads:
            thread.join(10)

    def wait_closed(self, count: int) -> bool:
        """Wait until `count` connections are over."""
        with self.changed:
            return self.changed.wait_for(lambda: self.num_closed >= count, timeout=10)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with self.changed:
            self.num_connections += 1
            number = self.num_connections
        if sock.family == socket.AF_INET:
            # As asyncio's servers do; without it the second small write waits 40 ms for an ACK.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            peer = Peer(sock, number)
            self._peers.append(peer)
            self._script(peer)
        except OSError:
            pass  # the client left, which is what the test wants to see
        finally:
            sock.close()
            with self.changed:
                self.num_closed += 1
                self.changed.notify_all()
