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

    parts = reader.feed(CHUNK + b"data: [DONE]\n\n" + CHUNK + b"data: junk\n\n")

    assert len(parts) == 2
    assert reader.feed(CHUNK) == []


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(b"", id="alone"),
        pytest.param(b'data: {"choices":[]}\n\n', id="after-a-chunk-without-choices"),
        pytest.param(b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n', id="after-a-role"),
    ],
)
def test_a_terminal_mark_before_any_answer_ends_nothing(before):
    """vllm#40978: a server swallows its error and sends the mark alone."""
    reader = EventReader(OPENAI)

    parts = reader.feed(before + b"data: [DONE]\n\n")

    assert not any(part.delta.is_terminal for part in parts)
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
