"""The handle of a running server: its rules, and whether they were played."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading

import pytest

import server_reference
from server_reference.scripted import ManualClock, rule
from server_reference.scripted.providers import Limits
from server_reference.scripted.server import _listen
from tests.server_reference.scripted.raw_client import RawClient, chat


def test_rules_are_added_after_the_others():
    with server_reference.scripted(rule("first", user="a")) as server, RawClient(server) as client:
        added = server.on("second", times=2)

        assert b"first" in client.ask(chat("a"))
        assert b"second" in client.ask(chat("b"))
        assert server.rules.played(added) == 1


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([rule("any")], id="played-once"),
        pytest.param(["one", "two"], id="each-item"),
        pytest.param([rule("a", times=2)], id="each-time"),
        pytest.param([], id="no-rules"),
    ],
)
def test_what_was_played_to_its_end_passes(rules):
    with server_reference.scripted(rules) as server, RawClient(server) as client:
        client.ask()
        client.ask()

        server.assert_all_played()


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        pytest.param([rule("any"), rule("a", user="never")], "user='never': 0 of 1", id="never"),
        pytest.param(["one", "two"], "any request: 1 of 2", id="an-item-is-left"),
        pytest.param([rule("a", times=3, name="thrice")], "thrice: 1 of 3", id="too-rarely"),
    ],
)
def test_what_was_not_played_is_listed(rules, left):
    with server_reference.scripted(rules) as server, RawClient(server) as client:
        client.ask()

        with pytest.raises(AssertionError, match=rf"1 rules were not played[^\n]*\n  {left}$"):
            server.assert_all_played()


def test_a_rule_may_ask_what_came_before():
    def counting(received):
        return f"request {server.counters().requests}"

    with server_reference.scripted(counting) as server, RawClient(server) as client:
        client.ask()

        assert b"request 2" in client.ask()


def test_a_reset_begins_anew():
    options = {"rate_limits": Limits(requests_per_minute=1), "clock": ManualClock()}
    rules = [rule(["first"], attempt=1)]

    with server_reference.scripted(rules, **options) as server, RawClient(server) as client:
        assert b"first" in client.ask()
        assert b"429" in client.ask()
        server.reset()

        assert b"first" in client.ask()
        assert server.counters().requests == 1


def test_a_stopped_server_can_be_reset():
    with server_reference.scripted("x") as server, RawClient(server) as client:
        client.ask()

    server.reset()

    assert len(server.journal) == 0


def test_rules_are_replaced_by_what_a_server_takes():
    with server_reference.scripted("old") as server, RawClient(server) as client:
        server.rules.replace("new")
        with pytest.raises(TypeError, match="cannot play int"):
            server.rules.replace(3)

        assert b"new" in client.ask()


def test_a_small_piece_does_not_wait_for_the_one_before_it():
    with (
        _listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_connections_that_come_while_it_stops_are_closed_too():
    """pytest makes an error of each socket that is left to the garbage collector."""
    for _ in range(40):
        server, came = server_reference.scripted("Hi!"), []

        def connect(port=server.port, came=came):
            with contextlib.suppress(OSError):
                came.extend(socket.create_connection(("127.0.0.1", port)) for _ in range(8))

        caller = threading.Thread(target=connect)
        caller.start()
        server.stop()
        caller.join()
        for one in came:
            one.close()
    gc.collect()
