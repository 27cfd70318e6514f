"""Connections of the scripted server: before a request, under TLS, and when it starts or stops."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time

import pytest
import trustme

import server_reference
from server_reference.scripted import ManualClock, ScriptedServer
from server_reference.scripted.ops import (
    Body,
    Fin,
    HalfClose,
    Head,
    NoCloseNotify,
    Raw,
    Reset,
    Wait,
)
from tests.end_to_end.raw_http import send
from tests.end_to_end.scripted_raw import OK, RawClient, Watcher, playing, wait_until

LONG = b"a" * 2**23


@pytest.fixture(scope="module")
def contexts():
    """TLS of a server and of a client that trusts it."""
    authority = trustme.CA()
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(of_server)
    of_client = ssl.create_default_context()
    authority.configure_trust(of_client)
    return of_server, of_client


@pytest.mark.parametrize(
    ("greeting", "error", "sent"),
    [
        pytest.param([Fin()], None, b"", id="closed-at-once"),
        pytest.param([Reset()], ConnectionResetError, b"", id="reset-at-once"),
        pytest.param([Raw(b"220 mail\r\n"), Fin()], None, b"220 mail\r\n", id="no-http"),
        pytest.param([Raw(LONG), Fin()], None, LONG, id="more-than-a-socket-holds"),
    ],
)
def test_a_connection_can_fail_before_a_request(greeting, error, sent):
    with server_reference.scripted(OK, greetings={1: greeting}) as server:
        assert met(server) == (sent, error)
        reply = send(server.base_url, "GET", "/")

    assert reply.body == b"ok"


def met(server):
    """What the server sends of its own accord, and the error that ends the connection."""
    data = b""
    try:
        with RawClient(server).socket as client:
            while piece := client.recv(2**16):
                data += piece
    except OSError as error:  # the reset may come while it still connects
        return data, type(error)
    return data, None


def test_a_greeting_may_only_take_its_time():
    clock = ManualClock(auto_advance=True)

    with playing(OK, greetings={1: [Wait(30)]}, clock=clock) as (_, client):
        client.get()
        assert client.until(b"ok").startswith(b"HTTP/1.1 200")

    assert clock.now() == 1_700_000_030.0


def test_it_speaks_tls(contexts):
    of_server, of_client = contexts

    with playing(OK, tls=of_server, client_tls=of_client) as (server, client):
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


def test_a_client_that_speaks_no_tls_is_noted(contexts):
    watcher = Watcher()

    with playing(OK, tls=contexts[0], observers=[watcher]) as (_, client):
        client.get()
        outcome_of_any_kind(client)
        watcher.wait_for("closed", 1, "tls")

    assert [event[0] for event in watcher.seen].count("closed") == 1


def outcome_of_any_kind(client):
    try:
        client.rest()
    except OSError:
        return


def test_a_server_stops_in_the_middle_of_a_handshake(contexts):
    watcher = Watcher()

    with playing(OK, tls=contexts[0], observers=[watcher]) as (server, _):
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
    ScriptedServer("x").stop()


def test_rules_can_be_added_while_it_runs():
    with playing([]) as (server, client):
        server.on(OK, path="/late")
        client.get("/late")
        assert client.until(b"ok").startswith(b"HTTP/1.1 200")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_holds_no_connection_open():
    clock = ManualClock()
    with playing([Wait(5.0), *OK[:2], Fin()], clock=clock) as (server, client):
        client.get()
        wait_until(lambda: clock.sleeping)
        reads, writes = os.pipe()
        if not (child := os.fork()):
            server.stop()
            os.read(reads, 1)
            os._exit(0)
        try:
            clock.advance(5.0)
            seen = client.rest()
        finally:
            os.write(writes, b"x")
            os.waitpid(child, 0)
            os.close(reads)
            os.close(writes)

    assert seen.endswith(b"ok")
