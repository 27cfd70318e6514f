"""A client that sees the bytes of the scripted server, and one who watches that server."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import server_reference
from server_reference.scripted.hooks import Observer
from server_reference.scripted.ops import Body, End, Head

__all__ = ["OK", "RawClient", "Watcher", "outcome", "playing", "wait_until"]

OK = (Head(200, framing="length", length=2), Body(b"ok"), End())


class Watcher(Observer):
    """Everything that happened, in order, for whoever waits for it."""

    def __init__(self):
        self.seen = []
        self._changed = threading.Condition()

    def note(self, *what):
        with self._changed:
            self.seen.append(what)
            self._changed.notify_all()

    def connection_opened(self, connection):
        self.note("opened", connection.number)

    def connection_closed(self, connection, reason):
        self.note("closed", connection.number, reason)

    def request(self, received):
        self.note("request", received.target)

    def ended(self, received, how):
        self.note("ended", how)

    def wait_for(self, *what):
        with self._changed:
            assert self._changed.wait_for(lambda: what in self.seen, 10), (what, self.seen)


class RawClient:
    """A client that sees bytes."""

    def __init__(self, server, tls=None):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")

    def send(self, data):
        self.socket.sendall(data)

    def get(self, path="/", extra=""):
        self.send(f"GET {path} HTTP/1.1\r\nhost: x\r\n{extra}\r\n".encode())

    def until(self, end):
        data = b""
        while not data.endswith(end):
            piece = self.socket.recv(65536)
            if not piece:
                break
            data += piece
        return data

    def rest(self):
        """Everything up to the end of the connection."""
        return self.until(b"\0no such end")


@contextmanager
def playing(then, *, client_tls=None, **config):
    """A server that plays, and a client that is connected to it."""
    with server_reference.scripted(then, **config) as server:
        client = RawClient(server, client_tls)
        try:
            yield server, client
        finally:
            client.socket.close()


def outcome(client):
    """The error that ends the connection; `None` when it ends in order."""
    try:
        assert client.rest() == b""
    except OSError as error:
        return type(error)
    return None


def wait_until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
