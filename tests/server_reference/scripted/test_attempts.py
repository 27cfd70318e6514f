"""Which requests are tries of one call."""

from __future__ import annotations

import pytest

from server_reference.scripted.ops import End, Fin, Head
from tests.server_reference.scripted.watched import HELLO, Played

BUSY = (Head(529), End())
AGAIN = (("x-stainless-retry-count", "1"),)
FIRST = (("x-stainless-retry-count", "0"),)


def tries(played):
    """Call and attempt of each request."""
    return [(entry.call, entry.attempt) for entry in played.watch.journal.entries()]


@pytest.mark.parametrize(
    ("ops", "how"),
    [
        pytest.param(BUSY, "complete", id="error"),
        pytest.param((Head(200), Fin()), "cut", id="cut"),
        pytest.param((Head(200),), "abandoned", id="abandoned"),
        pytest.param((), "cut", id="nothing"),
    ],
)
def test_what_follows_a_failure_is_another_try(ops, how):
    played = Played()
    played.exchange(ops=ops, how=how)
    played.exchange()

    assert tries(played) == [(1, 1), (1, 2)]


@pytest.mark.parametrize(
    ("headers", "second"),
    [
        pytest.param((), (2, 1), id="says-nothing"),
        pytest.param(FIRST, (2, 1), id="says-it-is-the-first"),
        pytest.param(AGAIN, (1, 2), id="says-it-is-a-retry"),
    ],
)
def test_after_a_success_the_client_decides(headers, second):
    played = Played()
    played.exchange()
    played.exchange(headers=headers)

    assert tries(played) == [(1, 1), second]


def test_a_failed_call_that_begins_anew_is_another_call():
    played = Played()
    played.exchange(ops=BUSY, headers=FIRST)
    played.exchange(headers=FIRST)

    assert tries(played) == [(1, 1), (2, 1)]


@pytest.mark.parametrize(("other", "second"), [("a", (1, 2)), ("b", (2, 1))])
def test_an_idempotency_key_names_a_call(other, second):
    played = Played()
    played.exchange(headers=(("idempotency-key", "a"),))
    played.exchange(headers=(("idempotency-key", other),))

    assert tries(played) == [(1, 1), second]


def test_equal_requests_side_by_side_are_calls_of_their_own():
    played = Played()
    played.ask(connection=1)
    played.ask(connection=2)

    assert tries(played) == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    "more", [{"body": b'{"a": 1}'}, {"target": "/v1/messages"}, {"method": "PUT"}]
)
def test_other_requests_are_other_calls(more):
    played = Played()
    played.exchange(ops=BUSY)
    played.exchange(**more)

    assert tries(played) == [(1, 1), (2, 1)]


def test_an_empty_body_after_a_failure_is_the_same_call_gone_wrong():
    played = Played()
    played.exchange(ops=BUSY)
    played.exchange(b"")

    assert tries(played) == [(1, 1), (1, 2)]


def test_an_empty_body_after_a_success_is_none():
    played = Played()
    played.exchange()
    played.exchange(b"")

    assert tries(played) == [(1, 1), (2, 1)]


def test_in_a_watched_call_all_equal_requests_are_tries():
    played = Played()
    with played.watch.scopes.new(None):
        played.exchange(headers=FIRST)
        played.exchange(headers=FIRST)
    with played.watch.scopes.new(None):
        played.exchange(ops=HELLO, headers=FIRST)

    assert tries(played) == [(1, 1), (1, 2), (2, 1)]


def test_the_newest_calls_are_remembered():
    played = Played(max_entries=2)
    for number in range(4):
        played.exchange(b"%d" % number)

    assert list(played.watch.journal.calls.records) == [3, 4]


def test_gaps_are_on_the_servers_clock():
    played = Played()
    for wait in (0.5, 2.0, 0.0):
        played.exchange(ops=BUSY)
        played.clock.advance(wait)

    assert played.watch.journal.attempts() == ({1: 3}, {1: (0.5, 2.0)})


def sides(played, number, ops, **more):
    """Equal requests, all under way before the first is answered."""
    asked = [played.ask(connection=one, **more) for one in range(1, number + 1)]
    for received in asked:
        played.answer(received, ops)


@pytest.mark.parametrize("headers", [(FIRST, AGAIN), ((), ())], ids=["told", "untold"])
def test_retries_side_by_side_go_on_with_a_call_each(headers):
    """As agents do that ask the same at the same time."""
    played = Played()
    sides(played, 3, BUSY, headers=headers[0])
    sides(played, 3, HELLO, headers=headers[1])

    assert tries(played) == [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 2)]


def test_a_retry_goes_on_with_the_call_that_was_free_to_be_sent_again_first():
    played = Played()
    for seconds in ("5", "1"):
        played.exchange(
            ops=(Head(529, (("retry-after", seconds),)), End()), connection=1, headers=FIRST
        )
    played.clock.advance(1)
    played.exchange(headers=AGAIN)

    assert tries(played) == [(1, 1), (2, 1), (2, 2)]


def test_a_retry_goes_on_with_a_call_that_its_client_gave_up_on():
    """The server may see a connection close after it sees the next request."""
    played = Played()
    played.exchange(headers=FIRST)
    played.ask(connection=1, headers=FIRST)
    played.ask(connection=2, headers=AGAIN)

    assert tries(played) == [(1, 1), (2, 1), (2, 2)]


def test_a_retry_goes_on_with_a_call_of_the_same_client():
    played = Played()
    for agent in ("a", "b"):
        played.exchange(ops=BUSY, headers=(*FIRST, ("user-agent", agent)))
    played.exchange(headers=(*AGAIN, ("user-agent", "b")))

    assert tries(played) == [(1, 1), (2, 1), (2, 2)]


def test_equal_calls_beyond_a_number_are_let_go():
    played = Played()
    for _ in range(300):
        played.exchange(ops=BUSY, headers=FIRST)

    [equal] = played.watch.journal.calls._by_key.values()
    assert len(equal) == 256
