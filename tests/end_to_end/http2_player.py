"""What the HTTP/2 tests of the scripted server play, and one who watches that server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import server_reference
from server_reference.scripted.hooks import Observer
from server_reference.scripted.ops import Body, End, Head
from tests.end_to_end.raw_http2 import RawHttp2

__all__ = ["ANSWERED", "HEAD", "OK", "Watcher", "player"]

OK = [Head(200), Body(b"ok"), End()]
HEAD = ("HEADERS", 1, {":status": "200"})
ANSWERED = [HEAD, ("DATA", 1, b"ok"), ("END", 1)]


class Watcher(Observer):
    """What was told, in order, for whoever waits for it."""

    def __init__(self):
        self.seen = []
        self._changed = threading.Condition()

    def note(self, *what):
        with self._changed:
            self.seen.append(what)
            self._changed.notify_all()

    def connection_closed(self, connection, reason):
        self.note("closed", connection.protocol, reason)

    def request(self, received):
        self.note("request", received.stream_id, received.body)

    def wrote(self, received, op, num_bytes):
        self.note("wrote", type(op).__name__, num_bytes)

    def ended(self, received, how):
        self.note("ended", received.stream_id, how)

    def broke(self, received, error):
        self.note("broke", received.stream_id, type(error).__name__)

    def wait_for(self, *what):
        with self._changed:
            assert self._changed.wait_for(lambda: what in self.seen, 10), (what, self.seen)


@contextmanager
def player(watcher: Watcher) -> Iterator[Callable[..., RawHttp2]]:
    """Starts a server that plays `then`, and a raw client of it; ends both, the client first."""
    with ExitStack() as opened:

        def playing(then, *, settings=None, **config):
            server = server_reference.scripted(then, observers=[watcher], **config)
            opened.callback(server.stop)
            client = RawHttp2(server, settings=settings)
            opened.callback(client.close)
            return client

        yield playing
