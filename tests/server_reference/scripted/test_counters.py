"""The counts are what the server saw."""

from __future__ import annotations

from server_reference.scripted.ops import Body, Head
from tests.server_reference.scripted.watched import HELLO, Played


def test_nothing_has_happened():
    counters = Played().watch.counters().to_dict()

    assert {name for name, value in counters.items() if value} == set()


def test_connections():
    played = Played()
    played.exchange()
    played.exchange()
    played.exchange()
    played.exchange(connection=2)
    played.close(1)

    counters = played.watch.counters()

    assert (counters.connections_opened, counters.connections_reused) == (2, 1)
    assert (counters.connections_open, counters.closed_by) == (1, {"client": 1})
    assert counters.closes_after_end == 1


def test_streams_now_and_at_most():
    played = Played()
    first, second = played.ask(connection=1), played.ask(connection=2)
    played.answer(first)
    played.ask(connection=1)
    played.answer(second)

    counters = played.watch.counters()

    assert (counters.streams_open, counters.streams_max) == (1, 2)


def test_a_client_that_closes_before_the_end():
    played = Played()
    played.exchange(ops=[Head(200)], how="abandoned")
    played.close(reason="client")

    counters = played.watch.counters()

    assert (counters.closes_before_end, counters.closes_after_end) == (1, 0)
    assert (counters.resets_seen, counters.replies) == (0, {"abandoned": 1})


def test_a_connection_that_is_reset():
    played = Played()
    played.exchange(ops=[Head(200)], how="abandoned")
    played.close(reason="client reset")

    counters = played.watch.counters()

    assert (counters.resets_seen, counters.closes_before_end) == (1, 1)


def test_a_stream_that_is_reset():
    played = Played()
    played.open(protocol="h2")
    played.reset_stream(played.ask(stream_id=1))
    played.exchange(stream_id=3)
    seen = played.watch.counters().resets_seen
    played.close(reason="client")

    counters = played.watch.counters()

    assert (seen, counters.resets_seen) == (1, 1)
    assert (counters.closes_before_end, counters.closes_after_end) == (1, 1)


def test_streams_that_went_with_their_connection_were_not_reset():
    played = Played()
    played.open(protocol="h2")
    received = played.ask(stream_id=1)
    played.watch.ended(received, "abandoned")
    played.close(reason="client")

    counters = played.watch.counters()

    assert (counters.resets_seen, counters.closes_before_end) == (0, 1)
    assert counters.closes_after_end == 0


def test_a_stopped_server_is_nobodys_close():
    played = Played()
    played.exchange(ops=[Head(200)], how="stopped")
    played.close(reason="stopped")

    counters = played.watch.counters()

    assert counters.closes_before_end == counters.closes_after_end == 0


def test_bytes_of_replies_that_are_over_and_under_way():
    played = Played()
    played.exchange(b"12345", [Body(b"abc")])
    played.exchange(b"67", [Body(b"de")], how=None)

    counters = played.watch.counters()

    assert (counters.bytes_received, counters.bytes_sent) == (7, 5)


def test_attempts_and_the_time_between_them():
    played = Played()
    played.exchange(ops=[Head(500)])
    played.clock.advance(2)
    played.exchange()
    played.exchange(b"other")

    counters = played.watch.counters()

    assert (counters.attempts, counters.gaps) == ({1: 2, 2: 1}, {1: (2.0,)})


def test_reset_begins_from_zero_with_what_is_open():
    played = Played()
    played.exchange()
    live = played.ask(connection=2)
    played.reset_stream(played.ask(connection=1, stream_id=1))

    played.watch.reset()
    played.answer(live, HELLO)

    counters = played.watch.counters()
    assert (counters.connections_opened, counters.connections_open) == (0, 2)
    assert (counters.streams_open, counters.streams_max, counters.requests) == (0, 1, 0)
    assert (counters.replies, counters.resets_seen) == ({"complete": 1}, 0)
