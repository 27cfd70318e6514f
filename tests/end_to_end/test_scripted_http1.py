"""The scripted server's HTTP/1.1, byte by byte, as a raw client sees it."""

from __future__ import annotations

import json
import random

import pytest

from server_reference.scripted import Answer, ManualClock
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
from tests.end_to_end.scripted_raw import OK, RawClient, Watcher, outcome, playing, wait_until


def test_a_connection_is_kept_alive():
    with playing(OK) as (_, client):
        for _ in range(3):
            client.get()
            assert client.until(b"ok") == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_requests_that_come_at_once_are_answered_in_order():
    def echo(received):
        return [Head(200, framing="length", length=2), Body(received.path.encode()), End()]

    with playing(echo) as (_, client):
        client.send(b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % n for n in range(10)))
        sent = client.until(b"/9")

    assert [part[:2] for part in sent.split(b"\r\n\r\n")[1:]] == [b"/%d" % n for n in range(10)]


def test_requests_wait_while_one_is_played():
    clock = ManualClock()

    def slow_first(received):
        fast = [Head(200, framing="length", length=4), Body(b"fast"), End()]
        return [Wait(5), *OK] if received.path == "/slow" else fast

    with playing(slow_first, clock=clock) as (_, client):
        client.get("/slow")
        client.get("/fast")
        wait_until(lambda: clock.sleeping)
        clock.advance(5)
        sent = client.until(b"fast")

    assert sent.index(b"ok") < sent.index(b"fast")


def test_who_sends_many_requests_at_once_is_read_again_when_they_are_answered():
    """More than wait in line are left in the socket, and none of them is lost."""
    clock = ManualClock()
    asked = []

    def slow_first(received):
        asked.append(received.path)
        return [Wait(5), *OK] if received.path == "/0" else OK

    with playing(slow_first, clock=clock) as (_, client):
        for number in range(200):
            client.get(f"/{number}")
        wait_until(lambda: clock.sleeping)
        clock.advance(5)
        sent = b""
        while sent.count(b"\r\n\r\nok") < 200:
            sent += client.until(b"ok")

    assert asked == [f"/{number}" for number in range(200)]


def test_all_of_a_body_has_left_when_the_next_operation_is_performed():
    body = b"a" * 2**23
    script = [Head(200, framing="close"), Body(body), NoCloseNotify()]

    with playing([script]) as (_, client):
        client.get()
        _, _, sent = client.rest().partition(b"\r\n\r\n")

    assert len(sent) == len(body)


@pytest.mark.parametrize(
    "request_line", [b"GET / HTTP/1.0", b"GET / HTTP/1.1\r\nconnection: close"]
)
def test_a_client_that_wants_the_connection_closed_gets_it_closed(request_line):
    with playing(OK) as (_, client):
        client.send(request_line + b"\r\nhost: x\r\n\r\n")
        assert client.rest().endswith(b"connection: close\r\n\r\nok")


def test_a_body_in_chunks_is_put_together():
    def echo(received):
        return [Head(200, framing="close"), Body(received.body), End()]

    with playing(echo) as (_, client):
        client.send(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        client.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        assert client.rest().endswith(b"\r\n\r\nabcde")


def test_a_client_that_asks_first_is_told_to_go_on():
    with playing(OK) as (_, client):
        client.send(
            b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n"
        )
        assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"x")
        assert client.until(b"ok").startswith(b"HTTP/1.1 200")


def test_bytes_leave_when_their_time_has_come():
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

    with playing([script], clock=clock) as (_, client):
        client.get()
        reads = [client.socket.recv(65536)[-1:]]
        for _ in range(2):
            wait_until(lambda: clock.sleeping)
            clock.advance(5)
            reads.append(client.socket.recv(65536))

    assert reads == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("op", "error", "reason"),
    [
        pytest.param(Fin(), None, "server", id="fin"),
        pytest.param(Reset(), ConnectionResetError, "server reset", id="reset"),
    ],
)
def test_a_script_ends_the_connection_in_the_middle(op, error, reason):
    watcher = Watcher()

    with playing([[Head(200), Body(b"half"), op]], observers=[watcher]) as (_, client):
        client.get()
        client.until(b"4\r\nhalf\r\n")
        seen = outcome(client)
        watcher.wait_for("ended", "cut")
        watcher.wait_for("closed", 1, reason)

    assert seen is error


def test_a_half_closed_connection_still_reads():
    watcher = Watcher()

    with playing([[Head(200), Body(b"half"), HalfClose()]], observers=[watcher]) as (_, client):
        client.get()
        assert client.rest().endswith(b"half\r\n")
        client.send(b"still here")
        assert ("closed", 1, "server") not in watcher.seen
        client.socket.close()
        watcher.wait_for("closed", 1, "server")


def test_a_connection_may_close_after_a_whole_reply_without_a_word():
    watcher = Watcher()

    with playing([[*OK, Fin()]], observers=[watcher]) as (_, client):
        client.get()
        assert client.rest().endswith(b"content-length: 2\r\n\r\nok")
        watcher.wait_for("ended", "complete")


@pytest.mark.parametrize(
    ("script", "sent"),
    [([Pause()], b""), ([Head(200), Body(b"x")], b"1\r\nx\r\n")],
    ids=["pause", "no-end"],
)
def test_a_hang_lasts_until_the_client_goes(script, sent):
    watcher = Watcher()

    with playing([script], observers=[watcher]) as (_, client):
        client.get()
        client.until(sent)
        watcher.wait_for("request", "/")
        client.socket.close()
        watcher.wait_for("ended", "abandoned")
        watcher.wait_for("closed", 1, "client")


def test_a_client_that_leaves_ends_a_wait():
    watcher, clock = Watcher(), ManualClock()

    with playing(Answer("a b c", itl=3600), observers=[watcher], clock=clock) as (_, client):
        body = json.dumps({"stream": True}).encode()
        client.send(
            b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        )
        client.send(body)
        client.until(b'"text":"a"}}\n\n\r\n')
        client.socket.close()
        watcher.wait_for("ended", "abandoned")

    assert clock.sleeping == 0


def test_a_server_that_stops_ends_what_it_plays():
    watcher = Watcher()

    with playing([[Head(200), Pause()]], observers=[watcher]) as (server, client):
        client.get()
        watcher.wait_for("request", "/")
        server.stop()

    assert watcher.seen[-2:] == [("ended", "stopped"), ("closed", 1, "stopped")]


def test_anything_can_be_sent_in_place_of_a_reply():
    with playing([[Raw(b"SSH-2.0-x\r\n"), Fin()]]) as (_, client):
        client.get()
        assert client.rest() == b"SSH-2.0-x\r\n"


def test_what_is_no_request_is_answered_and_closed():
    watcher = Watcher()

    with playing(OK, observers=[watcher]) as (_, client):
        client.send(b"\x16\x03\x01 hello\r\n\r\n")
        assert client.rest().startswith(b"HTTP/1.1 400 Bad Request\r\n")
        watcher.wait_for("closed", 1, "bad request")


def test_a_head_without_end_is_refused():
    with playing(OK) as (_, client):
        client.send(b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 200_000)
        assert client.until(b"Large").startswith(b"HTTP/1.1 431 ")


def test_a_body_that_is_too_large_is_refused():
    with playing(OK, max_body_bytes=10) as (_, client):
        client.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 11\r\n\r\n" + b"x" * 11)
        assert client.until(b"Large").startswith(b"HTTP/1.1 413 ")


def test_an_upgrade_is_answered_as_if_it_were_none():
    with playing(OK) as (_, client):
        client.get(extra="connection: upgrade\r\nupgrade: h2c\r\n")
        assert client.rest().startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_proxy_s_form_of_the_target_is_understood():
    watcher = Watcher()

    with playing(OK, observers=[watcher]) as (_, client):
        client.get("http://api.example:80/v1/models?x=1")
        client.until(b"ok")

    assert ("request", "/v1/models?x=1") in watcher.seen


def test_random_bytes_do_not_end_the_server():
    chance = random.Random(7)
    words = b"GET |POST |/v1/messages| HTTP/1.1|\r\n|\r\n\r\n|\0|{|content-length: 5|\xff"
    pieces = [*words.split(b"|"), b"transfer-encoding: chunked", b"PRI * HTTP/2.0"]

    with playing("Hi") as (server, _):
        for _ in range(200):
            with RawClient(server).socket as one:
                one.sendall(b"".join(chance.choices(pieces, k=chance.randrange(1, 12))))
        body = b'{"model": "m"}'
        last = RawClient(server)
        last.send(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n" + body)
        assert last.until(b"}}").startswith(b"HTTP/1.1 200 OK")
        last.socket.close()
