"""The scripted server's HTTP/1.1, byte by byte, as a raw client sees it."""

from __future__ import annotations

import json
import random
import socket
import ssl
import threading
import time
from contextlib import contextmanager

import pytest
import trustme

import server_reference
from server_reference.scripted import Answer, ManualClock
from server_reference.scripted.hooks import Observer
from server_reference.scripted.ops import (
    Body,
    End,
    Fin,
    HalfClose,
    Head,
    NoCloseNotify,
    Pause,
    Raw,
    Reset,
    Wait,
)

OK = [Head(200, framing="length", length=2), Body(b"ok"), End()]


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


class Raw1:
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


@pytest.fixture
def play():
    """A server that plays, and a client that is connected to it."""
    opened = []

    @contextmanager
    def playing(then, *, client_tls=None, **config):
        with server_reference.scripted(then, **config) as server:
            client = Raw1(server, client_tls)
            opened.append(client)
            yield server, client

    yield playing
    for client in opened:
        client.socket.close()


@pytest.fixture(scope="module")
def contexts():
    """TLS of a server and of a client that trusts it."""
    authority = trustme.CA()
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(of_server)
    of_client = ssl.create_default_context()
    authority.configure_trust(of_client)
    return of_server, of_client


def test_a_connection_is_kept_alive(play):
    with play(OK) as (_, client):
        for _ in range(3):
            client.get()
            assert client.until(b"ok") == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_requests_that_come_at_once_are_answered_in_order(play):
    def echo(received):
        return [Head(200, framing="length", length=2), Body(received.path.encode()), End()]

    with play(echo) as (_, client):
        client.send(b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % n for n in range(10)))
        sent = client.until(b"/9")

    assert [part[:2] for part in sent.split(b"\r\n\r\n")[1:]] == [b"/%d" % n for n in range(10)]


def test_requests_wait_while_one_is_played(play):
    clock = ManualClock()

    def slow_first(received):
        fast = [Head(200, framing="length", length=4), Body(b"fast"), End()]
        return [Wait(5), *OK] if received.path == "/slow" else fast

    with play(slow_first, clock=clock) as (_, client):
        client.get("/slow")
        client.get("/fast")
        wait_until(lambda: clock.sleeping)
        clock.advance(5)
        sent = client.until(b"fast")

    assert sent.index(b"ok") < sent.index(b"fast")


@pytest.mark.parametrize(
    "request_line", [b"GET / HTTP/1.0", b"GET / HTTP/1.1\r\nconnection: close"]
)
def test_a_client_that_wants_the_connection_closed_gets_it_closed(play, request_line):
    with play(OK) as (_, client):
        client.send(request_line + b"\r\nhost: x\r\n\r\n")
        assert client.rest().endswith(b"connection: close\r\n\r\nok")


def test_a_body_in_chunks_is_put_together(play):
    def echo(received):
        return [Head(200, framing="close"), Body(received.body), End()]

    with play(echo) as (_, client):
        client.send(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        client.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert client.rest().endswith(b"\r\n\r\nabcde")


def test_a_client_that_asks_first_is_told_to_go_on(play):
    with play(OK) as (_, client):
        client.send(
            b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n"
        )
        assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"x")
        assert client.until(b"ok").startswith(b"HTTP/1.1 200")


def test_bytes_leave_when_their_time_has_come(play):
    clock = ManualClock()
    script = [
        Head(200, framing="close"),
        Body(b"a"),
        Wait(5),
        Body(b"b"),
        Wait(5),
        Body(b"c"),
        End(),
    ]

    with play([script], clock=clock) as (_, client):
        client.get()
        reads = [client.socket.recv(65536)[-1:]]
        for _ in range(2):
            wait_until(lambda: clock.sleeping)
            clock.advance(5)
            reads.append(client.socket.recv(65536))

    assert reads == [b"a", b"b", b"c"]


def wait_until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("op", "error", "reason"),
    [
        pytest.param(Fin(), None, "server", id="fin"),
        pytest.param(Reset(), ConnectionResetError, "server reset", id="reset"),
    ],
)
def test_a_script_ends_the_connection_in_the_middle(play, op, error, reason):
    watcher = Watcher()

    with play([[Head(200), Body(b"half"), op]], observers=[watcher]) as (_, client):
        client.get()
        client.until(b"4\r\nhalf\r\n")
        seen = outcome(client)
        watcher.wait_for("ended", "cut")
        watcher.wait_for("closed", 1, reason)

    assert seen is error


def outcome(client):
    """The error that ends the connection; `None` when it ends in order."""
    try:
        assert client.rest() == b""
    except OSError as error:
        return type(error)
    return None


def test_a_half_closed_connection_still_reads(play):
    watcher = Watcher()

    with play([[Head(200), Body(b"half"), HalfClose()]], observers=[watcher]) as (_, client):
        client.get()
        assert client.rest().endswith(b"half\r\n")
        client.send(b"still here")
        assert ("closed", 1, "server") not in watcher.seen
        client.socket.close()
        watcher.wait_for("closed", 1, "server")


def test_a_connection_may_close_after_a_whole_reply_without_a_word(play):
    watcher = Watcher()

    with play([[*OK, Fin()]], observers=[watcher]) as (_, client):
        client.get()
        assert client.rest().endswith(b"content-length: 2\r\n\r\nok")
        watcher.wait_for("ended", "complete")


@pytest.mark.parametrize("script", [[Pause()], [Head(200), Body(b"x")]], ids=["pause", "no-end"])
def test_a_hang_lasts_until_the_client_goes(play, script):
    watcher = Watcher()

    with play([script], observers=[watcher]) as (_, client):
        client.get()
        watcher.wait_for("request", "/")
        client.socket.close()
        watcher.wait_for("ended", "abandoned")
        watcher.wait_for("closed", 1, "client")


def test_a_client_that_leaves_ends_a_wait(play):
    watcher, clock = Watcher(), ManualClock()

    with play(Answer("a b c", itl=3600), observers=[watcher], clock=clock) as (_, client):
        body = json.dumps({"stream": True}).encode()
        client.send(
            b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        )
        client.send(body)
        client.until(b'"text":"a"}}\n\n\r\n')
        client.socket.close()
        watcher.wait_for("ended", "abandoned")

    assert clock.sleeping == 0


def test_a_server_that_stops_ends_what_it_plays(play):
    watcher = Watcher()

    with play([[Head(200), Pause()]], observers=[watcher]) as (server, client):
        client.get()
        watcher.wait_for("request", "/")
        server.stop()

    assert watcher.seen[-2:] == [("ended", "stopped"), ("closed", 1, "stopped")]


def test_anything_can_be_sent_in_place_of_a_reply(play):
    with play([[Raw(b"SSH-2.0-x\r\n"), Fin()]]) as (_, client):
        client.get()
        assert client.rest() == b"SSH-2.0-x\r\n"


def test_what_is_no_request_is_answered_and_closed(play):
    watcher = Watcher()

    with play(OK, observers=[watcher]) as (_, client):
        client.send(b"\x16\x03\x01 hello\r\n\r\n")
        assert client.rest().startswith(b"HTTP/1.1 400 Bad Request\r\n")
        watcher.wait_for("closed", 1, "bad request")


def test_a_head_without_end_is_refused(play):
    with play(OK) as (_, client):
        client.send(b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 200_000)
        assert client.until(b"Large").startswith(b"HTTP/1.1 431 ")


def test_a_body_that_is_too_large_is_refused(play):
    with play(OK, max_body_bytes=10) as (_, client):
        client.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 11\r\n\r\n" + b"x" * 11)
        assert client.until(b"Large").startswith(b"HTTP/1.1 413 ")


def test_an_upgrade_is_answered_as_if_it_were_none(play):
    with play(OK) as (_, client):
        client.get(extra="connection: upgrade\r\nupgrade: h2c\r\n")
        assert client.rest().startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_proxy_s_form_of_the_target_is_understood(play):
    watcher = Watcher()

    with play(OK, observers=[watcher]) as (_, client):
        client.get("http://api.example:80/v1/models?x=1")
        client.until(b"ok")

    assert ("request", "/v1/models?x=1") in watcher.seen


def test_random_bytes_do_not_end_the_server(play):
    chance = random.Random(7)
    words = b"GET |POST |/v1/messages| HTTP/1.1|\r\n|\r\n\r\n|\0|{|content-length: 5|\xff"
    pieces = [*words.split(b"|"), b"transfer-encoding: chunked", b"PRI * HTTP/2.0"]

    with play("Hi") as (server, _):
        for _ in range(200):
            with Raw1(server).socket as one:
                one.sendall(b"".join(chance.choices(pieces, k=chance.randrange(1, 12))))
        body = b'{"model": "m"}'
        last = Raw1(server)
        last.send(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n" + body)
        assert last.until(b"}}").startswith(b"HTTP/1.1 200 OK")
        last.socket.close()


@pytest.mark.parametrize(
    ("greeting", "error", "sent"),
    [
        pytest.param([Fin()], None, b"", id="closed-at-once"),
        pytest.param([Reset()], ConnectionResetError, b"", id="reset-at-once"),
        pytest.param([Raw(b"220 mail\r\n"), HalfClose()], None, b"220 mail\r\n", id="no-http"),
    ],
)
def test_a_connection_can_fail_before_a_request(play, greeting, error, sent):
    with play(OK, greetings={1: greeting}) as (server, client):
        assert client.until(sent) == sent if sent else outcome(client) is error
        second = Raw1(server)
        second.get()
        assert second.until(b"ok").startswith(b"HTTP/1.1 200")
        second.socket.close()


def test_a_greeting_may_only_take_its_time(play):
    clock = ManualClock(auto_advance=True)

    with play(OK, greetings={1: [Wait(30)]}, clock=clock) as (_, client):
        client.get()
        assert client.until(b"ok").startswith(b"HTTP/1.1 200")

    assert clock.now() == 1_700_000_030.0


def test_it_speaks_tls(play, contexts):
    of_server, of_client = contexts

    with play(OK, tls=of_server, client_tls=of_client) as (server, client):
        client.get()
        assert client.until(b"ok").startswith(b"HTTP/1.1 200 OK\r\n")

    assert server.base_url.startswith("https://")


@pytest.mark.parametrize(
    ("op", "is_told"), [(Fin(), True), (NoCloseNotify(), False), (HalfClose(), False)], ids=str
)
def test_tls_can_end_with_and_without_a_word(contexts, op, is_told):
    of_server, of_client = contexts
    script = [Head(200, framing="close"), Body(b"half"), op]

    with server_reference.scripted([script], tls=of_server) as server:
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        with of_client.wrap_socket(
            raw, server_hostname="localhost", suppress_ragged_eofs=False
        ) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert read_until_half(client).endswith(b"half")
            assert ends_in_order(client) is is_told


def read_until_half(client):
    data = b""
    while not data.endswith(b"half"):
        data += client.recv(100)
    return data


def ends_in_order(client):
    try:
        return client.recv(100) == b""
    except ssl.SSLEOFError:
        return False


def test_a_client_that_speaks_no_tls_is_noted(play, contexts):
    watcher = Watcher()

    with play(OK, tls=contexts[0], observers=[watcher]) as (_, client):
        client.get()
        outcome_of_any_kind(client)
        watcher.wait_for("closed", 1, "tls")

    assert [event[0] for event in watcher.seen].count("closed") == 1


def outcome_of_any_kind(client):
    try:
        client.rest()
    except OSError:
        return


def test_a_server_stops_in_the_middle_of_a_handshake(play, contexts):
    watcher = Watcher()

    with play(OK, tls=contexts[0], observers=[watcher]) as (server, _):
        watcher.wait_for("opened", 1)
        server.stop()

    assert [event[0] for event in watcher.seen] == ["opened", "closed"]


def test_starting_and_stopping_leaves_nothing_behind():
    before = threading.active_count()

    for _ in range(20):
        server = server_reference.scripted("x")
        server.stop()
        server.stop()

    assert threading.active_count() == before


def test_a_server_starts_in_less_than_a_tenth_of_a_second():
    server_reference.scripted("x").stop()  # imports

    start = time.perf_counter()
    with server_reference.scripted("x"):
        took = time.perf_counter() - start

    assert took < 0.1


def test_a_server_that_was_never_started_can_be_stopped():
    from server_reference.scripted import ScriptedServer

    ScriptedServer("x").stop()


def test_rules_can_be_added_while_it_runs(play):
    with play([]) as (server, client):
        server.on(OK, path="/late")
        client.get("/late")
        assert client.until(b"ok").startswith(b"HTTP/1.1 200")
