"""What a handle asserts about its client, and what it says when it fails."""

from __future__ import annotations

import pytest

import server_reference
from server_reference.scripted import ErrorAnswer
from server_reference.scripted.judged import Judged
from server_reference.scripted.ops import Head, Pause
from tests.server_reference.scripted.raw_client import KEY, RawClient, chat
from tests.server_reference.scripted.watched import Played


@pytest.fixture
def server():
    with server_reference.scripted("Hello") as running:
        yield running


@pytest.fixture
def client(server):
    with RawClient(server) as one:
        yield one


def test_the_only_call_was_tried_so_often(server, client):
    server.rules.replace([])
    server.on([ErrorAnswer(500), "Hello"])
    client.ask()
    client.ask()

    server.assert_attempts(2)
    with pytest.raises(AssertionError, match=r"(?s)tried 2 times, not 3.*request 1: call 1 .*500"):
        server.assert_attempts(3)


def test_attempts_of_one_of_several_calls(server, client):
    client.ask()
    client.ask(chat("other"))

    server.assert_attempts(1, call=2)
    with pytest.raises(AssertionError, match="2 calls came, so say which"):
        server.assert_attempts(1)
    with pytest.raises(AssertionError, match="call 3 was tried 0 times, not 1"):
        server.assert_attempts(1, call=3)


def test_no_call_came(server):
    with pytest.raises(AssertionError, match="no call came; expected one with 1 attempts"):
        server.assert_attempts(1)


def test_reuse(server, client):
    client.ask()
    client.ask()

    server.assert_reused()


def test_no_reuse(server, client):
    client.ask()
    client.close()
    client.ask()

    server.assert_reused(connections=2)
    with pytest.raises(AssertionError, match=r"2 requests came over 2 connections, at most 1"):
        server.assert_reused()


def test_reuse_needs_two_requests(server, client):
    client.ask()

    with pytest.raises(AssertionError, match="send at least 2"):
        server.assert_reused()


def test_a_message_holds_no_key(server, client):
    client.ask(target=f"/v1/chat/completions?key={KEY}")
    client.close()
    client.ask()

    with pytest.raises(AssertionError) as caught:
        server.assert_reused()

    assert KEY not in str(caught.value)
    assert "connection 2" in str(caught.value)


def test_no_leaks(server, client):
    client.ask()

    server.assert_no_leaks()
    with pytest.raises(AssertionError, match="1 connections are open and idle, at most 0"):
        server.assert_no_leaks(idle=0)
    client.close()
    server.assert_no_leaks(idle=0)


def test_idle_connections_leak(server, client):
    for _ in range(3):
        client.ask()
        client.leave()

    with pytest.raises(AssertionError, match="3 connections are open and idle, at most 1 are"):
        server.assert_no_leaks()


def test_a_reply_under_way_leaks(server, client):
    server.rules.replace([])
    server.on(lambda received: [Head(200), Pause()])
    client.send(chat())

    with pytest.raises(AssertionError, match=r"(?s)1 replies are still under way.*under way$"):
        server.assert_no_leaks()


def test_what_was_seen_stays_after_the_stop(server, client):
    client.ask()
    server.stop()

    assert server.counters().requests == 1
    assert server.verdict().is_clean


def test_the_journal_has_what_the_server_is_still_to_note():
    """A reply can be read before the server has noted its end."""
    played = Played()
    received = played.ask()

    def ping(call):
        if played.watch.journal.num_in_flight:
            played.watch.ended(received, "complete")
        call()

    assert Judged(played.watch, ping).journal.entries()[0].how == "complete"


def test_a_verdict_waits_for_replies_under_way():
    played = Played()
    received = played.ask()
    asked = iter(range(10))

    def ping(call):
        if next(asked) == 8:  # after two rounds
            played.watch.ended(received, "complete")
        call()

    Judged(played.watch, ping).verdict()

    assert next(asked) == 9
    assert played.watch.journal.num_in_flight == 0


def test_forget(server, client):
    client.ask()
    server.forget()
    client.ask()

    assert (len(server.journal), server.counters().requests) == (1, 1)


def test_the_journal_is_as_long_as_asked():
    with server_reference.scripted("Hello", journal_entries=2) as server, RawClient(server) as one:
        for _ in range(3):
            one.ask()

        assert len(server.journal) == 2
