from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from server_reference.gateway.choices import interleaved


class Stream:
    """Yields what it is given, each thing when its turn comes."""

    def __init__(self, *items, fails_with=None):
        self.items = items
        self.fails_with = fails_with
        self.is_open = False

    async def run(self):
        self.is_open = True
        try:
            for item in self.items:
                await asyncio.sleep(0)
                yield item
            if self.fails_with is not None:
                raise self.fails_with
        finally:
            self.is_open = False


def taken(*streams, most=99):
    async def main():
        found = []
        async with aclosing(interleaved([stream.run() for stream in streams])) as items:
            async for item in items:
                found.append(item)
                if len(found) == most:
                    break
        return found

    return asyncio.run(main())


def test_a_single_stream_is_passed_on():
    assert taken(Stream("a", "b")) == [(0, "a"), (0, "b")]


def test_items_come_mixed_and_in_the_order_of_their_stream():
    assert taken(Stream("a", "b"), Stream("c", "d", "e")) == [
        (0, "a"),
        (1, "c"),
        (0, "b"),
        (1, "d"),
        (1, "e"),
    ]


@pytest.mark.parametrize("num", [1, 3])
def test_closing_closes_all(num):
    streams = [Stream("a", "b", "c") for _ in range(num)]

    assert taken(*streams, most=num) == [(number, "a") for number in range(num)]

    assert [stream.is_open for stream in streams] == [False] * num


def test_the_failure_of_one_ends_all():
    good, bad = Stream(*"abcdef"), Stream("g", fails_with=ValueError("broken"))

    with pytest.raises(ValueError, match="broken"):
        taken(good, bad)

    assert not good.is_open
