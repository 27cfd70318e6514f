"""One blocking connection over a socket pair: what it does when the other end is difficult."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator

import pytest

from smartclient._call import Call, Headers, Origin, Timeline, Timeout, Trace
from smartclient._clock import SystemClock
from smartclient.net import NetOptions, sockets
from smartclient.net.blocking_response import Response
from smartclient.net.http1 import ReplyParser
from smartclient.net.options import DRAIN_TIME, DRAIN_WAIT
from smartclient.net.pool import Pool
from smartclient.net.sockets import SocketConnection

ORIGIN = Origin("http", "a.example", 80)


class Pair:
    """A connection, active in a pool of its own, and its peer."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.pool: Pool[SocketConnection] = Pool(1)
        self.pool.reserve()
        self.connection = SocketConnection(ours, ORIGIN, self.pool)
        self.pool.fill(self.connection)

    def response(self, timeline: Timeline | None = None, **changes) -> Response:
        fields = {
            "method": "POST",
            "origin": ORIGIN,
            "target": "/",
            "headers": Headers(),
            "trace": Trace(0.0),
            "timeout": Timeout(read=1.0, write=1.0),
        }
        call = Call(**(fields | changes))
        return Response(self.connection, call, timeline or Timeline(), SystemClock(), NetOptions())


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.connection.cut()
    pair.peer.close()
    del pair
    gc.collect()


def test_close_seen_by_the_first_write_lets_another_connection_carry_the_call(pair):
    pair.connection.num_exchanges = 1
    pair.peer.close()

    assert pair.response()._send(b"POST / HTTP/1.1\r\n\r\n") is False


def test_iterable_body_is_untouched_when_nothing_was_written(pair):
    pair.connection.num_exchanges = 1
    pair.peer.close()
    body = iter([b"piece"])

    pair.response(body=body)._send(b"POST / HTTP/1.1\r\n\r\n")

    assert list(body) == [b"piece"]


def test_error_in_the_callers_body_is_the_callers(pair):
    def body():
        yield b"piece"
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        pair.response(body=body())._send(b"head")


def test_cut_connection_is_closed_and_says_so_to_the_peer(pair):
    pair.connection.cut()
    pair.connection.cut()

    assert pair.peer.recv(1) == b""
    assert pair.connection.sock.fileno() == -1
    assert pair.connection.receive(1.0) == b""
    with pytest.raises(BrokenPipeError):
        pair.connection.send(b"x", 1.0)


def test_forgotten_connection_stays_open_for_the_parent(pair):
    parents = pair.connection.sock.dup()

    pair.connection.forget()

    with parents:
        parents.send(b"still here")
        assert pair.peer.recv(100) == b"still here"


def test_full_socket_is_a_timeout_not_a_spin(pair):
    with pytest.raises(TimeoutError):
        while True:
            pair.connection.send(b"x" * 100_000, 0.01)


def test_silence_is_a_timeout(pair):
    with pytest.raises(TimeoutError):
        pair.connection.receive(0.01)


class Trickle(SocketConnection):
    """Each read brings a byte of a body, after 4 ms on a clock that the test has."""

    __slots__ = ("now",)

    def receive(self, timeout: float | None) -> bytes:
        if timeout < 0.004:
            self.now += timeout
            raise TimeoutError
        self.now += 0.004
        return b"1\r\nx\r\n"


def test_end_that_trickles_in_holds_the_next_call_up_for_a_moment_in_all(monkeypatch):
    connection = Trickle(socket.socket(), ORIGIN, Pool(1))
    connection.now = 5.0
    monkeypatch.setattr(sockets, "REAL", lambda: connection.now)
    parser = ReplyParser("POST")
    parser.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    state = connection.drain(parser, connection.now)
    is_fit = connection.is_fit(connection.now)

    assert (state, is_fit, connection.now) == ("pending", False, pytest.approx(5.0 + DRAIN_WAIT))
    connection.cut()


class Flood(Trickle):
    """Each read brings a byte of a body at once, and takes 10 ms."""

    def receive(self, timeout: float | None) -> bytes:
        self.now += 0.01
        return b"1\r\nx\r\n"


def test_end_that_does_not_come_is_not_read_for_longer_than_its_time(monkeypatch):
    connection = Flood(socket.socket(), ORIGIN, Pool(1))
    connection.now = 5.0
    monkeypatch.setattr(sockets, "REAL", lambda: connection.now)
    parser = ReplyParser("POST")
    parser.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    assert connection.drain(parser, connection.now) == "broken"
    assert connection.now == pytest.approx(5.0 + DRAIN_TIME, abs=0.011)
    connection.cut()


@pytest.mark.parametrize("arrives", [b"stray", b""])
def test_bytes_or_the_end_make_an_idle_connection_unfit(pair, arrives):
    assert pair.connection.is_fit(0.0)

    pair.peer.send(arrives) if arrives else pair.peer.close()

    assert not pair.connection.is_fit(0.0)
