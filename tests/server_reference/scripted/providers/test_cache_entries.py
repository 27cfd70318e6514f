"""Prefixes live until they expire, and no longer than there is room."""

from __future__ import annotations

from server_reference.scripted.providers.cache_entries import CacheEntries


def test_an_entry_expires_at_its_time_and_not_before():
    entries = CacheEntries(10)
    entries.write(b"a", 100.0, 300.0)

    assert entries.is_live(b"a", 399.9)
    assert not entries.is_live(b"a", 400.0)


def test_a_refresh_counts_from_the_start_of_the_request():
    entries = CacheEntries(10)
    entries.write(b"a", 0.0, 300.0)

    entries.refresh(b"a", 200.0)

    assert entries.is_live(b"a", 499.0)


def test_a_request_that_began_earlier_shortens_nothing():
    entries = CacheEntries(10)
    entries.write(b"a", 100.0, 300.0)

    entries.refresh(b"a", 0.0)

    assert entries.is_live(b"a", 399.0)


def test_of_two_writes_the_longer_lives():
    entries = CacheEntries(10)
    entries.write(b"a", 0.0, 3600.0)
    entries.write(b"a", 1.0, 300.0)

    assert entries.is_live(b"a", 3599.0)


def test_no_use_keeps_an_entry_beyond_its_end():
    entries = CacheEntries(10)
    entries.write(b"a", 0.0, 300.0, at_most=400.0)

    entries.refresh(b"a", 299.0)

    assert entries.is_live(b"a", 399.0)
    assert not entries.is_live(b"a", 400.0)


def test_the_one_used_longest_ago_goes_first():
    entries = CacheEntries(2)
    entries.write(b"a", 0.0, 300.0)
    entries.write(b"b", 0.0, 300.0)
    entries.refresh(b"a", 1.0)

    entries.write(b"c", 0.0, 300.0)

    assert [entries.is_live(key, 1.0) for key in (b"a", b"b", b"c")] == [True, False, True]


def test_an_expired_entry_takes_no_room_once_it_is_asked_for():
    entries = CacheEntries(10)
    entries.write(b"a", 0.0, 300.0)

    entries.is_live(b"a", 300.0)

    assert len(entries) == 0
