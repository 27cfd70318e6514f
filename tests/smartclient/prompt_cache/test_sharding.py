"""Which prompt_cache_key a conversation has."""

from __future__ import annotations

from collections import Counter

from smartclient.prompt_cache.sharding import PER_MINUTE, Shards


def test_no_key_carries_more_than_one_machine_serves_in_a_minute():
    shards = Shards()

    picked = Counter(shards.pick(b"prefix", None, now=float(n)) for n in range(50))

    assert picked == {0: PER_MINUTE, 1: PER_MINUTE, 2: PER_MINUTE, 3: 5}


def test_a_minute_later_there_is_room_again():
    shards = Shards()
    for n in range(PER_MINUTE):
        shards.pick(b"prefix", None, now=float(n))

    assert shards.pick(b"prefix", None, now=59.9) == 1
    assert shards.pick(b"prefix", None, now=60.0) == 0


def test_a_conversation_keeps_its_key_while_there_is_room():
    shards = Shards()
    for n in range(20):
        shards.pick(b"prefix", None, now=float(n))

    assert shards.pick(b"prefix", 1, now=100.0) == 1


def test_prefixes_have_keys_of_their_own():
    shards = Shards()
    for n in range(40):
        shards.pick(b"prefix", None, now=float(n))

    assert shards.pick(b"other", None, now=40.0) == 0


def test_prefixes_without_end_take_no_memory_without_end():
    shards = Shards()

    for n in range(1000):
        shards.pick(str(n).encode(), None, now=0.0)

    assert len(shards._recent) == 256
