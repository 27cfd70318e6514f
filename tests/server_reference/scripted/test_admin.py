"""The admin API: for whoever shows the token, in any language."""

from __future__ import annotations

import http.client
import json
import re
import socket
from urllib.parse import urlsplit

import pytest

import server_reference
from server_reference.scripted import Admin, ManualClock
from tests.server_reference.scripted.raw_client import KEY, RawClient, chat

RULE = {"then": "Hello", "user": "hi"}


@pytest.fixture
def server():
    with server_reference.scripted("Hello", clock=ManualClock(at=100.0)) as running:
        yield running


@pytest.fixture
def admin(server):
    with Admin(server) as running:
        yield running


def ask(admin, method, path, body=None, *, token=None, **headers):
    """Status and reply."""
    connection = http.client.HTTPConnection(urlsplit(admin.url).netloc, timeout=10)
    fields = {"authorization": f"Bearer {admin.token if token is None else token}"} | headers
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(method, path, data, fields)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def message(reply):
    return reply[1]["error"]["message"]


@pytest.mark.parametrize("token", ["", "wrong", "wrong-but-as-long-as-the-real-one", "\xff"])
def test_a_wrong_token_learns_nothing(admin, token):
    for path in ("/", "/journal", "/nothing"):
        assert ask(admin, "GET", path, token=token)[0] == 401


def test_nearly_the_token_is_a_wrong_one(admin):
    for token in (admin.token[:-1], f"{admin.token}a"):
        assert ask(admin, "GET", "/", token=token)[0] == 401


def test_the_token_is_nowhere_in_a_reply(admin):
    said = json.dumps(ask(admin, "GET", "/")) + json.dumps(ask(admin, "GET", "/nothing"))

    assert admin.token not in said


def test_a_short_token_is_refused(server):
    with pytest.raises(ValueError, match="at least 16 characters, not 5"):
        Admin(server, token="short")


def test_it_has_a_port_of_its_own_on_this_machine(admin, server):
    assert admin.url.startswith("http://127.0.0.1:")
    assert admin.url != server.base_url
    with RawClient(server) as client:
        assert b" 400 " in client.ask(target="/rules", authorization=f"Bearer {admin.token}")


def test_rules_are_put_and_shown(admin, server):
    status, reply = ask(admin, "PUT", "/rules", {"rules": [RULE | {"times": 2, "name": "greet"}]})
    with RawClient(server) as client:
        client.ask()

    assert (status, reply["rules"][0]["played"]) == (200, 0)
    assert ask(admin, "GET", "/rules")[1]["rules"] == [{"name": "greet", "times": 2, "played": 1}]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(b"{", "no JSON", id="no-json"),
        pytest.param({}, 'send {"rules"', id="no-rules"),
        pytest.param([RULE, {"then": "x", "usr": "hi"}], r"rules\[1\].*did you mean", id="field"),
        pytest.param([{"user": "hi"}], r"rules\[0\].*needs then", id="no-then"),
        pytest.param([3], r"rules\[0\]", id="no-object"),
    ],
)
def test_rules_that_cannot_be_played_change_nothing(admin, server, body, why):
    reply = ask(admin, "PUT", "/rules", body)

    assert reply[0] == 400
    assert re.search(why, message(reply))
    assert len(server.rules.rules) == 1


def test_the_journal_is_read_piece_by_piece(admin, server):
    with RawClient(server) as client:
        for number in range(3):
            client.ask(chat(str(number)))

    _, reply = ask(admin, "GET", "/journal?after=1&limit=1")

    assert [entry["number"] for entry in reply["entries"]] == [2]
    assert json.loads(reply["entries"][0]["body"])["messages"][0]["content"] == "1"
    assert KEY not in json.dumps(reply)


def test_counters_and_verdict(admin, server):
    with RawClient(server) as client:
        client.ask(target="/v1/chat/completions?key=0123456789")

    assert ask(admin, "GET", "/counters")[1]["requests"] == 1
    assert ask(admin, "GET", "/verdict")[1]["findings"][0]["rule"] == "misplaced_key"
    assert ask(admin, "GET", "/verdict?ignore=misplaced_key")[1]["is_clean"]
    assert ask(admin, "GET", "/verdict?ignore=misplaced")[0] == 400


def test_reset_frees_a_call_whose_caller_died(admin):
    ask(admin, "POST", "/calls")
    assert ask(admin, "POST", "/calls")[0] == 409

    ask(admin, "POST", "/reset")

    assert ask(admin, "POST", "/calls")[0] == 200


def test_no_entries_are_no_connections_either(admin, server):
    with RawClient(server) as client:
        client.ask()

    _, journal = ask(admin, "GET", "/journal?limit=0")

    assert (journal["entries"], journal["connections"]) == ([], [])


def test_reset_forgets_and_plays_from_the_start(admin, server):
    with RawClient(server) as client:
        client.ask()
        ask(admin, "POST", "/reset")

        assert ask(admin, "GET", "/journal")[1]["entries"] == []
        assert ask(admin, "GET", "/counters")[1]["connections_open"] == 1
        assert ask(admin, "GET", "/rules")[1]["rules"][0]["played"] == 0


def test_a_call_is_judged_by_what_its_caller_reports(admin, server):
    number = ask(admin, "POST", "/calls")[1]["call"]
    with RawClient(server) as client:
        client.ask()

    assert ask(admin, "POST", "/calls")[0] == 409
    assert ask(admin, "POST", "/calls/outcome", {"call": number})[0] == 400
    assert ask(admin, "POST", "/calls/outcome", {"call": number, "text": "Hell"})[0] == 200
    assert ask(admin, "POST", "/calls/outcome", {"call": number, "text": "Hell"})[0] == 404
    assert ask(admin, "GET", "/verdict")[1]["findings"][0]["rule"] == "answer_differs"


def test_the_clock_is_turned(admin, server):
    assert ask(admin, "POST", "/clock/advance", {"seconds": 2.5})[1]["now"] == 102.5
    assert server.clock.now() == 102.5
    assert ask(admin, "GET", "/clock")[1] == {"now": 102.5, "is_manual": True}


@pytest.mark.parametrize("body", [None, {}, {"seconds": "2"}, {"seconds": -1}, {"seconds": True}])
def test_a_clock_is_turned_by_seconds_only(admin, body):
    assert ask(admin, "POST", "/clock/advance", body)[0] == 400


def test_the_machines_time_cannot_be_turned():
    with server_reference.scripted("Hello") as server, Admin(server) as admin:
        assert ask(admin, "POST", "/clock/advance", {"seconds": 1})[0] == 409


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        pytest.param("GET", "/nothing", {}, 404, id="unknown"),
        pytest.param("PUT", "/journal", {}, 405, id="wrong-method"),
        pytest.param("PUT", "/rules", {"content-length": "99999999"}, 413, id="too-long"),
        pytest.param("PUT", "/rules", {"content-length": "9" * 5000}, 413, id="beyond-any-number"),
        pytest.param("PUT", "/rules", {"content-length": "-1"}, 411, id="no-length"),
        pytest.param("PUT", "/rules", {"transfer-encoding": "chunked"}, 411, id="chunked"),
        pytest.param("GET", "/journal?after=x", {}, 400, id="no-number"),
    ],
)
def test_what_it_does_not_do_is_said(admin, method, path, headers, status):
    assert ask(admin, method, path, **headers)[0] == status


@pytest.mark.parametrize("method", ["DELETE", "OPTIONS", "PATCH", "BREW"])
def test_a_method_that_it_has_not_is_refused_as_any_other(admin, method):
    assert ask(admin, method, "/rules", token="wrong")[0] == 401

    refused = ask(admin, method, "/rules")

    assert refused[0] == 405
    assert message(refused) == f"/rules takes GET or PUT, not {method}"


def test_what_is_no_request_is_refused_in_the_same_shape(admin):
    host, port = urlsplit(admin.url).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(b"GET / HTTP/9.9\r\n\r\n")
        head, _, body = sock.makefile("rb").read().partition(b"\r\n\r\n")

    assert b" 505 " in head
    assert "Invalid HTTP version" in json.loads(body)["error"]["message"]


@pytest.mark.parametrize("data", [b"\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_garbage_does_not_end_it(admin, data):
    host, port = urlsplit(admin.url).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass

    assert ask(admin, "GET", "/")[0] == 200


def test_stop_closes_the_port(server):
    admin = Admin(server)
    admin.stop()
    admin.stop()

    with pytest.raises(ConnectionRefusedError):
        ask(admin, "GET", "/")
