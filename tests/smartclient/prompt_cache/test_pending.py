"""What was written and not read yet, by tokens from the start of a prefix."""

from __future__ import annotations

import pytest

from smartclient.prompt_cache.pending import Pending


def written(*pieces):
    pending = Pending()
    replaced = [pending.write(start, tokens, until) for start, tokens, until in pieces]
    return pending, replaced


def test_what_is_read_is_not_wasted():
    pending, _ = written((0, 100, 10.0))

    pending.read(100)

    assert pending.expired(now=99.0) == 0


@pytest.mark.parametrize(("now", "tokens"), [(9.9, 0), (10.0, 100)])
def test_what_expires_unread_is_wasted(now, tokens):
    pending, _ = written((0, 100, 10.0))

    assert pending.expired(now) == tokens


def test_what_never_expires_is_never_wasted():
    pending, _ = written((0, 100, None))

    assert pending.expired(1e12) == 0


def test_a_read_takes_from_the_front():
    pending, _ = written((0, 100, 10.0), (100, 50, 10.0))

    pending.read(120)

    assert pending.expired(10.0) == 30


def test_what_is_written_again_was_wasted():
    pending, replaced = written((0, 100, 10.0), (50, 100, 20.0))

    assert replaced == [0, 50]
    assert pending.expired(20.0) == 50 + 100


def test_nothing_written_is_nothing_to_keep():
    pending, replaced = written((0, 0, 10.0))

    assert (len(pending), replaced) == (0, [0])


def test_memory_is_bounded():
    pending, _ = written(*((i, 1, None) for i in range(1000)))

    assert len(pending) == 64
