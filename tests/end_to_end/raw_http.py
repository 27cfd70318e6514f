"""HTTP by hand: what a client library hides, a test of the wire must see."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

__all__ = ["Reply", "Stream", "num_open_files", "opened", "post", "send", "talk", "until"]


@dataclass
class Reply:
    """A whole reply; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@contextmanager
def opened(base_url: str) -> Iterator[http.client.HTTPConnection]:
    """A connection, kept alive."""
    connection = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=30)
    try:
        yield connection
    finally:
        connection.close()


def talk(connection, method, path, body=None, *, headers=None) -> Reply:
    """One exchange over an open connection."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Reply(response.status, headers, response.read())


def send(base_url, method, path, body=None, *, headers=None) -> Reply:
    """One exchange over a connection of its own."""
    with opened(base_url) as connection:
        return talk(connection, method, path, body, headers=headers)


def post(base_url, path, body, *, key=None) -> Reply:
    return send(base_url, "POST", path, body, headers={"x-api-key": key} if key else None)


class Stream:
    """A request whose reply is read in pieces, or not at all.

    Args:
        cut: Share of the request that is sent.
        narrow: Let the kernels hold little of the reply, so that one soon waits to be read.
    """

    def __init__(
        self,
        base_url: str,
        path: str,
        body: Any,
        *,
        key: str | None = None,
        cut: float = 1,
        narrow: bool = False,
    ) -> None:
        url = urlsplit(base_url)
        self._socket = socket.socket()
        self._socket.settimeout(30)
        if narrow:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # the least there is
            # The server's send buffer starts at some segments, of 64 KiB each on loopback.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 100)
        self._socket.connect((url.hostname, url.port))
        payload = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: {url.netloc}\r\ncontent-length: {len(payload)}\r\n"
        head += f"x-api-key: {key}\r\n\r\n" if key else "\r\n"
        request = head.encode() + payload
        self._socket.sendall(request[: int(len(request) * cut)])
        self.received = b""

    def read_until(self, text: bytes) -> bytes:
        """Read on until `text` has come, or the server closes."""
        while text not in self.received:
            data = self._socket.recv(65536)
            if not data:
                raise AssertionError(f"the server closed before {text!r}: {self.received!r}")
            self.received += data
        return self.received

    def read_some(self, size: int, *, seconds: float) -> None:
        """Read `size` bytes at most, or what comes in `seconds`."""
        self._socket.settimeout(seconds)
        with suppress(TimeoutError):
            self.received += self._socket.recv(size) if size else b""

    def read_to_the_end(self) -> bytes:
        """Read until the last chunk."""
        return self.read_until(b"\r\n0\r\n\r\n")

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def reset(self) -> None:
        """Close as a process that dies does."""
        linger = struct.pack("ii", 1, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._socket.close()


def num_open_files() -> int:
    """Files and sockets of this process, in which the servers under test live too."""
    return len(list(Path("/proc/self/fd").iterdir()))


def until(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(0.005)
