"""The server when clients leave, too many come, its engine dies, or it is stopped."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import server_reference
from tests.end_to_end.raw_http import Stream, post, send, until
from tests.end_to_end.tiny_calls import ANN, BOB, BOTH, LONG, chat, engine_pid, is_idle, messages


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/messages", messages(stream=True, **LONG), id="anthropic"),
        pytest.param("/v1/chat/completions", chat(stream=True, **LONG), id="openai"),
        pytest.param(
            "/v1/responses",
            {"model": "tiny", "input": "Hello", "max_output_tokens": 900, "stream": True},
            id="responses",
        ),
    ],
)
def test_a_client_that_leaves_a_stream_frees_its_blocks(tiny_server, path, body, how):
    until(lambda: is_idle(tiny_server))
    stream = Stream(tiny_server.base_url, path, body, key=ANN)
    stream.read_until(b"data: ")
    assert tiny_server.stats().num_running == 1

    getattr(stream, how)()

    until(lambda: is_idle(tiny_server), seconds=1.0)


def test_a_client_that_leaves_while_it_waits_frees_its_blocks(tiny_server):
    until(lambda: is_idle(tiny_server))
    stream = Stream(tiny_server.base_url, "/v1/messages", messages(**LONG), key=ANN)
    until(lambda: tiny_server.stats().num_running == 1)

    stream.close()

    until(lambda: is_idle(tiny_server), seconds=1.0)


def test_more_than_may_wait_are_429_and_others_are_not_harmed(tiny_server):
    until(lambda: is_idle(tiny_server))
    url = tiny_server.base_url
    body = messages(stream=True, **LONG)
    held = []
    for count in range(1, 6):  # one by one: of a burst, those that come before any runs all wait
        held.append(Stream(url, "/v1/messages", body, key=ANN))
        until(partial(are_under_way, tiny_server, count))

    refused = [post(url, path, messages(), key=ANN) for path in BOTH]

    for stream in held:
        stream.close()
    until(lambda: is_idle(tiny_server))
    assert [reply.status for reply in refused] == [429, 429]
    assert [int(reply.headers["retry-after"]) >= 1 for reply in refused] == [True, True]
    assert refused[0].json()["error"]["type"] == "rate_limit_error"
    assert refused[1].json()["error"]["code"] == "rate_limit_exceeded"
    assert post(url, "/v1/messages", messages(), key=ANN).status == 200


def are_under_way(server, count):
    stats = server.stats()
    return stats.num_running + stats.num_queued == count


def test_headers_leave_after_two_seconds_without_a_token(breakable_server):
    pid = engine_pid(breakable_server)
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    with Stream(breakable_server.base_url, "/v1/messages", messages(stream=True)) as stream:
        stream.read_until(b"event: ping")
        waited = time.monotonic() - started
        os.kill(pid, signal.SIGCONT)
        received = stream.read_to_the_end()

    assert 1.9 < waited < 6
    header = re.search(rb"server-timing: (.*)\r\n", received).group(1)
    assert header.startswith(b"gateway;")
    assert b"prefill" not in header
    assert received.index(b"message_start") > received.index(b"event: ping")
    assert re.search(rb": server-timing queue;.*, prefill;.*, decode;.*\n", received)


def test_an_engine_that_dies_ends_its_streams_with_an_error_and_comes_back(breakable_server):
    url, server = breakable_server.base_url, breakable_server
    with (
        Stream(url, "/v1/messages", messages(stream=True, **LONG)) as stream,
        Stream(url, "/v1/chat/completions", chat(**LONG)) as waiting,
    ):
        stream.read_until(b"content_block_delta")
        until(lambda: server.stats().num_running == 2)

        os.kill(engine_pid(server), signal.SIGKILL)

        received = stream.read_to_the_end()
        assert b" 500 " in waiting.read_until(b"server_error").split(b"\r\n")[0]
    assert b"event: error" in received
    assert b"api_error" in received
    assert b"message_stop" not in received
    assert send(url, "GET", "/health").status == 503
    assert post(url, "/v1/messages", messages()).status == 529
    assert post(url, "/v1/chat/completions", chat()).status == 503
    until(lambda: send(url, "GET", "/health").status == 200, seconds=60)
    assert post(url, "/v1/messages", messages()).status == 200


def test_stop_is_bounded_and_ends_streams_with_an_error():
    server = server_reference.start("tiny", num_blocks=64)
    pid = engine_pid(server)
    with Stream(server.base_url, "/v1/messages", messages(stream=True, **LONG)) as stream:
        stream.read_until(b"content_block_delta")
        started = time.monotonic()

        server.stop(drain=0.1)
        server.stop()

        assert time.monotonic() - started < 5
        assert b"event: error" in stream.read_to_the_end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ConnectionError):
        send(server.base_url, "GET", "/health")


def leave_somewhere(server, seed):
    """Call, and go away at a point that `seed` chooses: before the body's end, or later."""
    chance = random.Random(seed)
    path = chance.choice([*BOTH, "/v1/messages/count_tokens"])
    body = messages("x" * chance.choice([5, 500]), max_tokens=300, stream=chance.random() < 0.5)
    stream = Stream(server.base_url, path, body, key=ANN, cut=chance.choice([0.1, 0.9, 1, 1, 1]))
    stream.read_some(chance.choice([0, 1, 1000]), seconds=0.05)
    chance.choice([stream.close, stream.reset])()


def test_clients_that_leave_at_any_point_cost_nothing(tiny_server):
    with ThreadPoolExecutor(10) as clients:
        list(clients.map(lambda seed: leave_somewhere(tiny_server, seed), range(60)))

    until(lambda: is_idle(tiny_server))
    assert post(tiny_server.base_url, "/v1/messages", messages(), key=ANN).status == 200


def test_of_many_at_once_each_is_answered_or_told_to_come_back(tiny_server):
    url = tiny_server.base_url
    until(lambda: is_idle(tiny_server))

    with ThreadPoolExecutor(40) as clients:
        calls = [(BOTH[at % 2], messages(max_tokens=5, stream=at % 3 == 0)) for at in range(80)]
        replies = list(clients.map(lambda call: post(url, *call, key=ANN), calls))

    statuses = Counter(reply.status for reply in replies)
    assert set(statuses) <= {200, 429}
    assert statuses[200] >= 5
    refused = [reply for reply in replies if reply.status == 429]
    assert all(int(reply.headers["retry-after"]) >= 1 for reply in refused)


def test_a_client_that_never_reads_holds_no_one_up(tiny_server, logged):
    """Neither others nor the engine: its own reply alone waits in the server."""
    until(lambda: is_idle(tiny_server))
    asked = partial(post, tiny_server.base_url, "/v1/messages", messages(), key=BOB)
    logged_since(logged, asked())
    body = chat(stream=True, max_tokens=700, temperature=0)  # 140 kB: more than is buffered
    with Stream(tiny_server.base_url, BOTH[1], body, key=ANN, narrow=True):
        until(lambda: tiny_server.stats().num_running == 1)
        during = asked()
        until(lambda: is_idle(tiny_server), seconds=60)
        others = logged_since(logged, asked())
        assert [line["tenant"] for line in others] == ["bob", "bob"]
        assert during.status == 200

    until(lambda: bool(logged))
    assert (logged[0]["tenant"], logged[0]["outcome"]) == ("ann", "disconnected")


def logged_since(logged, reply):
    """Wait for a reply's line; take it and those before it out of the log."""
    until(lambda: any(line["request_id"] == reply.headers["request-id"] for line in logged))
    lines = logged[:]
    logged.clear()
    return lines


def test_a_signal_to_the_engine_is_the_fronts_to_handle(breakable_server):
    """A service manager sends it to every process of the group."""
    until(lambda: breakable_server.stats() is not None, seconds=60)

    os.kill(engine_pid(breakable_server), signal.SIGTERM)

    assert post(breakable_server.base_url, "/v1/messages", messages()).status == 200
