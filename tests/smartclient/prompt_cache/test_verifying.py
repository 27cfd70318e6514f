"""What replies teach."""

from __future__ import annotations

import pytest

from smartclient.prompt_cache.verifying import begun, ended
from smartclient.wire import Usage
from tests.smartclient.prompt_cache.hinted_prompts import Talk
from tests.smartclient.prompt_cache.payloads import messages

LONG = "a rule of some length " * 200


class Reply:
    """A request whose marks are sent, and what its reply says."""

    def __init__(self, talk=None, *contents, system=LONG):
        self.talk = talk or Talk(is_full=True)
        self.talk.book.entries.clear()
        self.plan = self.talk.send(messages(*(contents or ("Hello",)), system=system))
        self.talk.book.entries.clear()
        self.ticket, self.book = self.talk.ticket, self.talk.book
        self.new = []

    def begin(self, started=0.0):
        self.new = begun(self.book, self.ticket.keys, self.plan, self.talk.terms, started)

    def end(self, usage, *, is_failed=False, now=5.0):
        ended(
            self.book,
            self.ticket.keys,
            self.ticket.weights,
            self.plan,
            self.talk.terms,
            usage,
            new=self.new,
            is_failed=is_failed,
            now=now,
        )

    @property
    def held(self):
        return [key in self.book.entries for key in self.ticket.keys]


def counts(uncached=10, read=0, written=1000):
    return Usage(uncached=uncached, cache_read=read, cache_write={"5m": written}, output=1)


def test_what_a_request_writes_is_there_once_its_reply_has_begun():
    reply = Reply()
    before = reply.held

    reply.begin()

    assert (before, reply.held) == ([False, False], [True, False])


def test_an_entry_lives_from_the_start_of_its_request():
    reply = Reply()

    reply.begin(started=100.0)

    assert reply.book.entries[reply.ticket.keys[0]].ends_at == 400.0


def test_a_use_begins_its_time_anew_and_never_shortens_it():
    reply = Reply()
    for started in (100.0, 250.0, 200.0):
        reply.begin(started)

    assert reply.book.entries[reply.ticket.keys[0]].ends_at == 550.0


def test_the_length_of_what_is_kept_is_what_the_provider_counted():
    reply = Reply()
    reply.begin()

    reply.end(counts(written=1234))

    assert reply.book.entries[reply.ticket.keys[0]].tokens == 1234


@pytest.mark.parametrize(
    ("usage", "is_failed", "is_held"),
    [
        pytest.param(None, True, False, id="failed-without-counts"),
        pytest.param(counts(), True, True, id="failed-after-its-counts"),
        pytest.param(None, False, True, id="cut-by-its-reader"),
    ],
)
def test_a_failure_writes_nothing_unless_it_says_so(usage, is_failed, is_held):
    reply = Reply()
    reply.begin()

    reply.end(usage, is_failed=is_failed)

    assert reply.held[0] is is_held


def test_how_many_tokens_a_byte_is_is_learned():
    reply = Reply()
    reply.begin()

    reply.end(counts(uncached=1000, written=1000))

    assert reply.book.ratio == 2000 / reply.ticket.weights[-1]
    assert reply.book.spread < 1.2


def test_where_both_counters_are_0_the_shortest_prefix_is_longer():
    reply = Reply()
    reply.begin()

    reply.end(counts(uncached=1100, written=0))

    assert reply.book.learned_least > 1000
    assert reply.held == [False, False]


def test_a_shorter_prefix_that_is_kept_corrects_what_was_learned():
    reply = Reply()
    reply.book.learned_least = 4000
    reply.begin()

    reply.end(counts(written=900))

    assert reply.book.learned_least == 900


def test_a_gateway_that_counts_no_writes_teaches_nothing_about_length():
    reply = Reply()
    reply.begin()

    reply.end(Usage(uncached=1100, cache_read=0, output=1))

    assert reply.book.learned_least == 0


def test_what_was_expected_and_not_read_is_no_longer_expected():
    talk = Talk(is_full=True)
    talk.send(messages("Hello", system=LONG))
    plan = talk.send(messages("Hello", "yes", "and", system=LONG))
    ticket = talk.ticket
    new = begun(talk.book, ticket.keys, plan, talk.terms, talk.now)

    usage = counts(read=0, written=1200)
    keys, weights, now = ticket.keys, ticket.weights, talk.now
    ended(talk.book, keys, weights, plan, talk.terms, usage, new=new, is_failed=False, now=now)

    assert plan.predicted_read > 1000
    assert talk.book.trust_at(now) == pytest.approx(0.7)


def test_an_hour_later_nobody_is_blamed_any_more():
    talk = Talk()
    talk.book.verified(0.0, 100.0)

    assert talk.book.trust_at(100.0) == pytest.approx(0.7)
    assert talk.book.trust_at(3700.0) == 1.0
