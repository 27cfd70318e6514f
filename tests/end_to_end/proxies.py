"""Proxies on loopback: HTTP (forwarding and CONNECT), over TLS too, and SOCKS5."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Mapping

from .raw_server import Peer, RawServer, Script

__all__ = ["HttpProxy", "SocksProxy"]


class _Proxy(RawServer):
    """A proxy that leads to wherever it is asked, whatever the name: all is on loopback.

    Attributes:
        asked: What each connection, or forwarded request, asked for.
    """

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(script, tls=tls)
        self.asked: list[str] = []

    def lead(self, peer: Peer, port: int) -> None:
        """Carry bytes both ways until either end closes."""
        upstream = socket.create_connection(("127.0.0.1", port))
        back = threading.Thread(target=_carry, args=(upstream, peer.sock), daemon=True)
        back.start()
        _carry(peer.sock, upstream)
        back.join(10)
        upstream.close()


class HttpProxy(_Proxy):
    """Forwards requests, and tunnels by CONNECT.

    Args:
        login: `user:password` that is asked for.
    """

    def __init__(self, login: str = "", *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(self._answer, tls=tls)
        scheme = "http" if tls is None else "https"
        self.address = f"{scheme}://127.0.0.1:{self.port}"
        self._wanted = f"Basic {b64encode(login.encode()).decode()}" if login else ""

    def _answer(self, peer: Peer) -> None:
        while (request := peer.request()) is not None:
            head = request.partition(b"\r\n\r\n")[0].decode("latin-1")
            method, target, _ = head.split("\r\n")[0].split(" ")
            self.asked.append(f"{method} {target}")
            if self._wanted not in _logins(head):
                peer.send(b"HTTP/1.1 407 No\r\nproxy-authenticate: Basic\r\n")
                peer.send(b"content-length: 4\r\n\r\nno!!")
            elif method == "CONNECT":
                peer.send(b"HTTP/1.0 200 Connection established\r\n\r\n")
                self.lead(peer, int(target.rpartition(":")[2]))
                return
            else:
                self._forward(peer, target, request)

    def _forward(self, peer: Peer, target: str, request: bytes) -> None:
        authority, _, path = target.removeprefix("http://").partition("/")
        first, _, rest = request.partition(b"\r\n")
        line = first.replace(target.encode(), b"/" + path.encode())
        with socket.create_connection(("127.0.0.1", int(authority.rpartition(":")[2]))) as upstream:
            upstream.sendall(line + b"\r\nconnection: close\r\n" + rest)
            answer = Peer(upstream, 0).request() or b""
        head, end, body = answer.partition(b"\r\n\r\n")
        # That connection's end is nobody else's.
        peer.send(re.sub(rb"(?i)\r\nconnection: close", b"", head) + end + body)


def _logins(head: str) -> list[str]:
    """What is said in its `proxy-authorization` fields, and nothing at all."""
    fields = (line.partition(": ") for line in head.split("\r\n"))
    return ["", *(value for name, _, value in fields if name.lower() == "proxy-authorization")]


class SocksProxy(_Proxy):
    """SOCKS5 with or without user and password.

    Args:
        reply: Its answer to a connect request; or a reply for each host that it refuses.
    """

    def __init__(self, login: str = "", *, reply: int | Mapping[str, int] = 0) -> None:
        super().__init__(self._answer)
        self._user, _, self._password = login.partition(":")
        self._reply = reply
        self.address = f"127.0.0.1:{self.port}"

    def _answer(self, peer: Peer) -> None:
        methods = _exactly(peer, _exactly(peer, 2)[1])
        wanted = 2 if self._user else 0
        if wanted not in methods:
            peer.send(b"\x05\xff")
            return
        peer.send(b"\x05%c" % wanted)
        if self._user:
            user = _exactly(peer, _exactly(peer, 2)[1]).decode()
            password = _exactly(peer, _exactly(peer, 1)[0]).decode()
            is_right = (user, password) == (self._user, self._password)
            peer.send(b"\x01%c" % (not is_right))
            if not is_right:
                return
        host, port = self._destination(peer)
        self.asked.append(f"{host}:{port}")
        reply = self._reply if isinstance(self._reply, int) else self._reply.get(host, 0)
        # Bound to a name, of the one form whose length varies.
        peer.send(b"\x05%c\x00\x03\x04here\x00\x00" % reply)
        if not reply:
            self.lead(peer, port)

    def _destination(self, peer: Peer) -> tuple[str, int]:
        match _exactly(peer, 4)[3]:
            case 1:
                host = socket.inet_ntop(socket.AF_INET, _exactly(peer, 4))
            case 4:
                host = socket.inet_ntop(socket.AF_INET6, _exactly(peer, 16))
            case _:
                host = f"name {_exactly(peer, _exactly(peer, 1)[0]).decode()}"
        return host, int.from_bytes(_exactly(peer, 2), "big")


def _exactly(peer: Peer, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = peer.sock.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for sock in (source, sink):
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
