"""Bytes in, parts out; nothing after the terminal one."""

from __future__ import annotations

import pytest

from smartclient.wire import adapters
from smartclient.wire.reader import EventReader

ANTHROPIC, OPENAI, _ = adapters()

CHUNK = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_parts_do_not_depend_on_the_split(size):
    stream = CHUNK * 2 + b": done\n\ndata: [DONE]\n\n"
    reader = EventReader(OPENAI)

    parts = [
        part for i in range(0, len(stream), size) for part in reader.feed(stream[i : i + size])
    ]

    assert [part.value.choices[0].delta.content for part in parts[:-1]] == ["a", "a"]
    assert parts[-1].delta.is_terminal
    assert reader.take_comments() == ["done"]


def test_nothing_is_read_after_the_terminal_event():
    reader = EventReader(OPENAI)

    parts = reader.feed(b"data: [DONE]\n\n" + CHUNK + b"data: junk\n\n")

    assert len(parts) == 1
    assert reader.feed(CHUNK) == []


def test_malformed_json_is_a_part_that_says_so():
    [part] = EventReader(OPENAI).feed(b'data: {"choices": [\n\n')

    assert part.value is None
    assert part.delta.failure is not None
    assert part.delta.failure.kind == "malformed"


def test_comments_are_taken_once():
    reader = EventReader(ANTHROPIC)
    reader.feed(b": one\n\n: two\n\n")

    assert reader.take_comments() == ["one", "two"]
    assert reader.take_comments() == []
