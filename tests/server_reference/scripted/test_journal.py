"""The journal keeps what was said, within bounds, and no secret."""

from __future__ import annotations

import tracemalloc
from dataclasses import asdict

import pytest

from server_reference.scripted.clock import ManualClock
from server_reference.scripted.journal import Journal
from server_reference.scripted.ops import Body, End, Head, Raw
from tests.server_reference.scripted.watched import Played, stream

KEY = "sk-live-0123456789"
AUTH = (("authorization", f"Bearer {KEY}"),)


def only(played):
    (entry,) = played.watch.journal.entries()
    return entry


def test_a_request_and_its_reply():
    played = Played()
    received = played.ask(b'{"model": "m", "stream": true}', headers=(("user-agent", "raw"),))
    played.clock.advance(1.5)
    played.answer(received, [*stream(b"data: a\n\n", b"data: b\n\n"), End()])

    entry = only(played)

    assert (entry.number, entry.connection, entry.call, entry.attempt) == (1, 1, 1, 1)
    assert (entry.api, entry.model, entry.is_stream) == ("openai.chat", "m", True)
    assert (entry.body, entry.body_bytes) == (b'{"model": "m", "stream": true}', 30)
    assert (entry.status, entry.how) == (200, "complete")
    assert (entry.reply, entry.reply_bytes, entry.num_writes) == (b"data: a\n\ndata: b\n\n", 18, 2)
    assert (entry.received_at, entry.head_at, entry.ended_at) == (100.0, 101.5, 101.5)


def test_a_reply_under_way_shows_what_has_left():
    played = Played()
    played.exchange(ops=stream(b"data: a\n\n"), how=None)

    entry = only(played)

    assert (entry.how, entry.ended_at, entry.reply) == (None, None, b"data: a\n\n")


def test_raw_bytes_have_a_status_too():
    played = Played()
    played.exchange(ops=[Raw(b"HTTP/1.1 418 Tea\r\n\r\n")], how="cut")

    assert only(played).status == 418


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"headers": AUTH}, id="bearer"),
        pytest.param({"headers": (("x-api-key", KEY),)}, id="x-api-key"),
        pytest.param({"headers": (("cookie", f"session={KEY}"),)}, id="cookie"),
        pytest.param({"headers": (*AUTH, ("x-note", f"it is {KEY}"))}, id="other-header"),
        pytest.param({"target": f"/v1/chat/completions?api_key={KEY}"}, id="query"),
        pytest.param({"body": b'{"api_key": "%s"}' % KEY.encode()}, id="field"),
        pytest.param({"headers": AUTH, "body": b'"%s"' % KEY.encode()}, id="body"),
        pytest.param(
            {"headers": AUTH, "body": b"x" * 65_530 + KEY.encode() * 9}, id="across-the-cap"
        ),
    ],
)
def test_no_secret_is_kept(request_):
    played = Played()
    echo = [Head(401, (("x-echo", KEY),)), Body(f'{{"api_key": "{KEY}"}}'.encode()), End()]
    received = played.ask(**request_)
    played.answer(received, echo if "headers" in request_ else [Head(401), End()])

    entry = only(played)

    assert "live" not in f"{entry!r} {entry.to_dict()} {asdict(entry)}"


def test_a_secret_in_pieces_is_not_kept_either():
    played = Played()
    pieces = [KEY[n : n + 1].encode() for n in range(len(KEY))]
    played.exchange(ops=stream(*pieces), how=None, headers=AUTH)

    assert only(played).reply == b"[redacted]"


def test_what_a_failed_rule_said_holds_no_key():
    played = Played()
    received = played.ask(headers=AUTH)
    played.watch.broke(received, ValueError(f"cannot use {KEY}"))

    assert only(played).error == "ValueError: cannot use [redacted]"


def test_keys_are_told_apart_without_being_known():
    played, other = Played(), Played()
    for key in ("a" * 10, "a" * 10, "b" * 10):
        played.exchange(headers=(("x-api-key", key),))
    other.exchange(headers=(("x-api-key", "a" * 10),))

    first, second, third = (entry.credential for entry in played.watch.journal.entries())

    assert first == second != third
    assert only(other).credential != first
    assert played.watch.journal.is_same_credential("b" * 10, third)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(
            b'{"model": "m", "api_key": "k"}', {"model": "m", "api_key": "[redacted]"}, id="1"
        ),
        pytest.param(b"no json", None, id="no-json"),
        pytest.param(b'{"a": "' + b"a" * 2**17 + b'"}', None, id="longer-than-is-kept"),
    ],
)
def test_a_body_can_be_read_as_json(body, value):
    played = Played()
    played.ask(body)

    assert played.watch.journal.entries()[0].json == value


def test_long_bodies_are_capped_and_counted():
    played = Played()
    played.exchange(b"x" * 100_000, [Head(200), *[Body(b"y" * 1000)] * 100, End()])

    entry = only(played)

    assert (len(entry.body), entry.body_bytes) == (65_536, 100_000)
    assert (len(entry.reply), entry.reply_bytes) == (65_536, 100_000)


@pytest.mark.parametrize("size", [1, 2, 7, 40, 10_000])
def test_the_end_of_a_stream_is_seen_in_any_pieces(size):
    data = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\r\n\r\ndata: [DONE]\r\n\r\n'
    played = Played()
    played.exchange(ops=stream(*[data[n : n + size] for n in range(0, len(data), size)]))

    assert (only(played).has_content, only(played).has_terminal) == (True, True)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("num_ends", [1, 2])
def test_an_event_counts_once_its_empty_line_has_come(end, num_ends):
    data = b'data: {"choices":[{"delta":{"content":"Hi"}}]}'
    played = Played()
    played.exchange(ops=stream(data + end * num_ends))

    assert only(played).has_content is (num_ends == 2)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(rb'data: {"text": "\ndata: [DONE]"}', id="done"),
        pytest.param(rb'data: {"text": "{\"type\":\"message_stop\"}"}', id="message-stop"),
    ],
)
def test_text_about_an_end_is_no_end(data):
    played = Played()
    played.exchange(ops=stream(data))

    assert not only(played).has_terminal


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"data:  [DONE]\n\n", id="two-spaces"),
        pytest.param(b'data: {"type" : "message_stop"}\n\n', id="spaces-in-json"),
    ],
)
def test_the_end_of_a_stream_is_seen_however_it_is_spaced(data):
    played = Played()
    played.exchange(ops=stream(data))

    assert only(played).has_terminal


def test_the_end_of_a_stream_beyond_the_cap_is_seen():
    played = Played()
    played.exchange(ops=stream(*[b"data: {}\n\n" * 1000] * 20, b'data: {"type":"message_stop"}'))

    assert only(played).has_terminal


def test_the_oldest_entries_make_room():
    played = Played(max_entries=3)
    for _ in range(5):
        played.exchange()

    assert [entry.number for entry in played.watch.journal.entries()] == [3, 4, 5]
    assert played.watch.journal.num_forgotten == 2


def test_large_entries_make_room_earlier():
    journal = Journal(ManualClock(), max_bytes=250_000)
    played = Played()
    played.watch.journal = journal
    for _ in range(10):
        played.exchange(b"x" * 60_000)

    assert len(journal.entries()) == 4


def test_a_reply_that_ends_when_its_entry_is_gone_takes_no_room():
    journal = Journal(ManualClock(), max_entries=1, max_bytes=100_000)
    played = Played()
    played.watch.journal = journal
    for _ in range(10):
        live = played.ask(connection=1)
        played.exchange(connection=2)
        played.answer(live, stream(b"x" * 30_000))

    assert journal._num_bytes < 100


def test_entries_after_a_number():
    played = Played()
    for _ in range(3):
        played.exchange()

    assert [entry.number for entry in played.watch.journal.entries(after=2)] == [3]


def test_reset_forgets_what_is_over():
    played = Played()
    played.exchange()
    live = played.exchange(ops=stream(b"a"), how=None, connection=2)
    played.close(1)

    played.watch.reset()
    played.watch.ended(live, "abandoned")

    assert [(entry.number, entry.how) for entry in played.watch.journal.entries()] == [
        (2, "abandoned")
    ]
    assert [one.number for one in played.watch.journal.connections()] == [2]


def test_a_connection():
    played = Played()
    played.exchange(headers=(("user-agent", "raw"),))
    played.exchange()
    played.clock.advance(2)
    played.close(reason="client reset")

    (connection,) = played.watch.journal.connections()

    assert (connection.num_requests, connection.client) == (2, ("raw", ""))
    assert (connection.opened_at, connection.closed_at) == (100.0, 102.0)
    assert connection.was_closed_by_client
    assert connection.to_dict()["reason"] == "client reset"


@pytest.mark.parametrize("name", ["max_entries", "max_body_bytes"])
def test_bounds_are_positive(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        Journal(ManualClock(), **{name: 0})


@pytest.mark.parametrize(
    "num_more",
    [2000, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])],
)
def test_memory_is_flat(num_more):
    """However many requests come, each over a connection and with a body of its own."""

    def ask(number):
        body = b'{"n": %d, "text": "%s"}' % (number, b"x" * 500)
        played.exchange(body, connection=number, headers=AUTH)
        played.close(number)

    played = Played(max_entries=500)
    for number in range(1, 1001):
        ask(number)
    tracemalloc.start()
    try:
        for number in range(1001, 2001):
            ask(number)
        before, _ = tracemalloc.get_traced_memory()
        for number in range(2001, 2001 + num_more):
            ask(number)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert after < before * 1.1
