"""Odd, slow, greedy and rude clients of the scripted server's HTTP/1.1."""

from __future__ import annotations

import logging
import tracemalloc

import pytest

from server_reference.scripted import ManualClock, rule
from server_reference.scripted.ops import Body, End, Head, Wait
from tests.end_to_end.scripted_raw import OK, RawClient, Watcher, playing

GET = b"GET %s HTTP/1.1\r\nhost: x\r\n%s\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n"
MANY = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 1000) for number in range(200))
REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_requests_before_garbage_are_answered_before_it_is_refused():
    with playing(OK) as (_, client):
        client.send(GET % (b"/a", b"") + GET % (b"/b", b"") + b"\0garbage\r\n\r\n")
        seen = client.rest()

    assert seen.startswith(REPLY + REPLY + b"HTTP/1.1 400 ")


def test_a_reply_under_way_ends_before_garbage_is_refused():
    slow = [Wait(5.0), *OK]

    with playing(slow, clock=ManualClock(auto_advance=True)) as (_, client):
        client.send(GET % (b"/", b"") + b"\0garbage\r\n\r\n")
        seen = client.rest()

    assert seen.startswith(REPLY + b"HTTP/1.1 400 ")


def test_requests_before_an_upgrade_are_answered_too():
    with playing(OK) as (_, client):
        upgrade = b"connection: upgrade\r\nupgrade: h2c\r\n"
        client.send(GET % (b"/a", b"") + GET % (b"/b", upgrade))

        assert client.rest().count(b"HTTP/1.1 200 OK") == 2


def test_a_refusal_reaches_a_client_that_is_still_sending():
    with playing(OK, max_body_bytes=1000) as (_, client):
        client.send(POST + b"content-length: 20000000\r\n\r\n" + b"x" * 20_000_000)

        assert client.until(b"Large").startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(GET % (b"/", MANY), id="many-fields"),
        pytest.param(b"GET / HTTP/1.1\r\nx: " + b"y" * 400_000, id="a-field-without-end"),
        pytest.param(b"GET /" + b"y" * 400_000, id="a-target-without-end"),
        pytest.param(CHUNKED + b"0\r\n" + MANY + b"\r\n", id="many-trailers"),
        pytest.param(CHUNKED + b"0\r\nx: " + b"y" * 400_000, id="a-trailer-without-end"),
        pytest.param(CHUNKED + b"2;" + b"y" * 400_000, id="a-chunk-extension-without-end"),
        pytest.param(b"\r\n" * 300_000, id="empty-lines-without-end"),
    ],
)
def test_what_has_no_end_is_refused(sent):
    with playing(OK) as (_, client):
        client.send(sent)

        assert client.until(b"Large").startswith(b"HTTP/1.1 431 ")


def test_a_trailer_is_no_header():
    def answer(received):
        return str(received.header("x-late"))

    with playing(rule(answer)) as (server, client):
        client.send(CHUNKED + b"0\r\nx-late: 1\r\n\r\n")
        client.until(b"}}")

    assert [name for name, _ in server.journal.entries()[0].headers] == [
        "host",
        "transfer-encoding",
    ]


def test_an_expectation_has_no_case():
    with playing(OK) as (_, client):
        client.send(POST + b"content-length: 2\r\nexpect: 100-Continue\r\n\r\n")

        assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_an_old_client_is_never_told_to_continue():
    with playing(OK) as (_, client):
        client.send(b"POST / HTTP/1.0\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\nab")

        assert client.rest().startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_reply_that_is_not_read_is_neither_held_in_memory_nor_over():
    watcher, piece = Watcher(), Body(bytes(2**20))

    with playing([Head(), *[piece] * 100, End()], observers=[watcher]) as (_, client):
        tracemalloc.start()
        client.get()
        client.socket.recv(1)
        watcher.wait_for("request", "/")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        client.socket.close()
        watcher.wait_for("ended", "abandoned")

    assert peak < 20 * 2**20


def test_a_whole_reply_that_is_not_read_is_abandoned():
    watcher = Watcher()

    with playing([Head(), Body(bytes(30 * 2**20)), End()], observers=[watcher]) as (_, client):
        client.get()
        client.socket.recv(1)
        client.socket.close()
        watcher.wait_for("ended", "abandoned")


def test_a_client_that_leaves_many_replies_unread_makes_no_noise(caplog):
    watcher = Watcher()

    with (
        caplog.at_level(logging.WARNING),
        playing([Head(), Body(bytes(2**16)), End()], observers=[watcher]) as (server, client),
    ):
        client.send(GET % (b"/", b"") * 2000)
        client.socket.recv(1)
        client.socket.close()
        watcher.wait_for("ended", "abandoned")
        other = RawClient(server)
        other.get("/other")
        assert other.until(b"0\r\n\r\n").startswith(b"HTTP/1.1 200 OK")
        other.socket.close()

    assert caplog.messages == []
