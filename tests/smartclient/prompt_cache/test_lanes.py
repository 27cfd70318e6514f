"""Requests in lanes: found by the longest shared prefix, and bounded."""

from __future__ import annotations

import threading
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartclient.prompt_cache.lanes import Lanes
from smartclient.prompt_cache.walk import walk
from tests.smartclient.prompt_cache.hinted_prompts import terms
from tests.smartclient.prompt_cache.payloads import messages

ENDPOINT = "anthropic.messages"


def prompt(*contents, **fields):
    found = walk(messages(*contents, **fields), endpoint=ENDPOINT)
    assert found is not None
    return found


class Known:
    """Lanes of one book, with a clock."""

    def __init__(self, **bounds):
        self.lanes, self.now = Lanes(**bounds), 0.0
        self.book = self.lanes.book("somebody", terms)

    def enter(self, *contents, **fields):
        self.now += 10.0
        return self.lanes.enter(self.book, prompt(*contents, **fields), self.now)


def test_a_request_that_goes_on_is_of_the_same_lane():
    known = Known()
    first = known.enter("one")

    second = known.enter("one", "two", "three")

    assert second.lane is first.lane
    assert (second.shared, second.is_extension, second.since) == (0, True, 10.0)


def test_interleaved_conversations_are_told_apart():
    """The request before is another's: the longest shared prefix decides."""
    known = Known()
    main, sub = known.enter("main", system="s"), known.enter("sub", system="s")

    again = known.enter("main", "x", "y", system="s")

    assert main.lane is not sub.lane
    assert again.lane is main.lane
    assert again.since == 20.0


def test_what_begins_like_others_and_goes_its_own_way_is_a_lane_of_its_own():
    known = Known()
    first = known.enter("one", system="s")

    other = known.enter("two", system="s")

    assert other.lane is not first.lane
    assert (other.shared, other.is_extension) == (0, False)


def test_a_tail_that_changes_with_each_turn_does_not_hide_that_it_grows():
    known = Known()
    known.enter("a", "b", "note 1", system="s")
    second = known.enter("a", "b", "c", "d", "note 2", system="s")

    third = known.enter("a", "b", "c", "d", "e", "f", "note 3", system="s")

    assert third.lane is second.lane
    assert not third.is_extension


@pytest.mark.parametrize(
    ("fields", "shared"),
    [
        pytest.param({}, 1, id="nothing-else"),
        pytest.param({"tool_choice": {"type": "any"}}, 0, id="a-parameter-of-the-messages"),
        pytest.param({"speed": "fast"}, -1, id="one-of-the-system-prompt"),
    ],
)
def test_what_breaks_the_prefix_beside_the_blocks_is_a_part_of_it(fields, shared):
    known = Known()
    known.enter("one", system="s")

    assert known.enter("one", system="s", **fields).shared == shared


def test_marks_of_the_caller_do_not_make_a_prefix_another():
    known = Known()
    marked = [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}]
    known.enter(marked)

    assert known.enter("one", "two", "three").shared == 0


def test_books_share_nothing():
    known = Known()
    known.enter("one")
    other = known.lanes.book("somebody else", terms)

    assert known.lanes.enter(other, prompt("one"), 5.0).shared == -1


def test_lanes_are_bounded_and_those_that_nobody_followed_go_first():
    known = Known(max_lanes=10)
    agent = known.enter("agent")
    known.enter("agent", "1", "2")

    for number in range(50):
        known.enter(f"one shot {number}")

    assert len(known.lanes) == 10
    assert known.enter("agent", "1", "2", "3", "4").lane is agent.lane


def test_prompts_are_bounded_by_their_bytes():
    known = Known(max_bytes=100_000)

    for number in range(50):
        known.enter(f"{number} " * 4000)

    assert known.lanes.num_bytes <= 100_000
    assert len(known.lanes) >= 1


@pytest.mark.parametrize(
    ("size", "turns", "calls"),
    [
        pytest.param(200_000, 1, 8, id="large-texts"),
        pytest.param(200, 20, 20, id="many-turns"),
        pytest.param(20, 1, 100, id="many-lanes"),
    ],
)
def test_what_is_counted_is_what_is_kept_in_memory(size, turns, calls):
    known = Known()
    known.enter("what is loaded with the first")
    tracemalloc.start()
    try:
        for number in range(calls):
            known.enter(*[f"{number} {turn} " + "x" * size for turn in range(turns)])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 0.7 * kept < known.lanes.num_bytes < 1.5 * kept


def test_one_prompt_may_be_larger_than_the_bound():
    known = Known(max_bytes=1000)
    known.enter("long " * 1000)

    assert known.enter("long " * 1000, "more", "more").is_extension


def test_a_book_that_is_forgotten_takes_its_lanes_with_it():
    lanes = Lanes()

    for number in range(100):
        book = lanes.book(number, terms)
        lanes.enter(book, prompt("one"), 0.0)

    assert len(lanes) == 64


def test_many_books_hold_no_more_than_some():
    lanes = Lanes()

    for number in range(100):
        book = lanes.book(number, terms)
        for entry in range(1000):
            key = b"%d of %d" % (entry, number)
            book.keep(key, "5m", 300.0, 0.0)
            book.spot(key)
            book.shards.pick(key, None, 0.0)

    books = list(lanes._books.values())
    assert sum(len(book.entries) for book in books) <= 16_384
    assert sum(len(book._spots) for book in books) <= 4096
    assert sum(len(book.shards._recent) for book in books) <= 2048


def test_threads_may_enter_at_once():
    known, failures = Known(max_lanes=20), []

    def run(name):
        said = []
        for number in range(30):
            said += [f"{name} {number}", "yes"]
            try:
                known.lanes.enter(known.book, prompt(*said, system="s"), float(number))
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


CONVERSATIONS = st.lists(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=7), min_size=1, max_size=40
)


def held_by(known):
    """Keys that the lanes hold, and how many of them hold each."""
    held = {}
    for lane in (*known.lanes._fresh.values(), *known.lanes._grown.values()):
        for key in lane.keys:
            held[key] = held.get(key, 0) + 1
    return held


@settings(deadline=None, max_examples=60)
@given(CONVERSATIONS, st.integers(1, 6))
def test_no_prefix_is_lost_or_kept_too_long(conversations, most):
    """The index is what the lanes hold, whatever was entered, forked and dropped."""
    known = Known(max_lanes=most)

    for said in conversations:
        known.enter(*said)

        assert {key: node.refs for key, node in known.book.where.items()} == held_by(known)
        assert len(known.lanes) <= most


@settings(deadline=None, max_examples=60)
@given(CONVERSATIONS)
def test_the_longest_shared_prefix_is_found(conversations):
    known = Known()

    for said in conversations:
        lanes = (*known.lanes._fresh.values(), *known.lanes._grown.values())
        before = [list(lane.keys) for lane in lanes]

        ticket = known.enter(*said)

        assert ticket.shared + 1 == max((_common(ticket.keys, one) for one in before), default=0)


def _common(one, other):
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None) or (
        min(len(one), len(other)) if one[:1] == other[:1] else 0
    )


def test_what_is_expected_is_all_of_one_lane():
    """An entry of another prompt than `before` is no block of it."""
    known = Known()
    long = known.enter("one", "two", "three", "four", "five")
    known.book.keep(long.keys[3], "5m", 300.0, known.now)
    long.lane.hold([3], 3)
    short = known.enter("other")

    ticket = known.lanes.enter(
        known.book, prompt("one", "two", "three", "four", "six"), known.now, likely=short.lane
    )

    assert ticket.before is short.walk
    assert (ticket.entry, ticket.cached, ticket.idle, ticket.lives) == (None,) * 4
