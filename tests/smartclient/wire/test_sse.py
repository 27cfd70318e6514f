"""The decoder against the standard, its known traps, and a naive reading of it."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smartclient import _errors
from smartclient.wire.sse import Event, SSEDecoder


def decode(*pieces: bytes) -> list[Event]:
    decoder = SSEDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


def naive(stream: bytes) -> list[Event]:
    """The standard's text, word by word, on a whole stream."""
    lines = re.split("\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
    events, last_id, kind, data, retry = [], "", "", "", None
    for line in lines[:-1]:  # what no line end follows is no line
        if line == "":
            if data != "":
                events.append(Event(kind or "message", data[:-1], last_id, retry))
            kind, data, retry = "", "", None
            continue
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "event":
            kind = value
        elif name == "data":
            data += value + "\n"
        elif name == "id" and "\0" not in value:
            last_id = value
        elif name == "retry" and re.fullmatch("[0-9]+", value):
            retry = int(value)
    return events


FRAGMENTS = [
    *(b"data", b"data:", b"data: ", b"event: ", b"event:", b"id: ", b"id", b"retry: ", b"1500"),
    *(b":", b" ", b"\n", b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\xef\xbb\xbf", b"\0"),
    *(b"event: a\n", b"event: \n", b"data: {}\n", b"data:  y\n\n", b"event: b\ndata: z\n\n"),
    *("\u2028".encode(), b"\x85", b"\x0b", "é".encode(), "𝄞".encode(), b"\xf0\x9d", b"x", b"{}"),
]


@given(
    st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=3), max_size=40).map(b"".join),
    st.lists(st.integers(0, 200), max_size=12),
)
@example(b"data:x\n\n\n", [7, 8])
@example(b"data:x\r\n\r\ndata:y\r\n\r\n", [7, 8, 9, 10])
@example(b"\xef\xbb\xbfdata:x\r\r", [1, 2, 3, 9])
def test_agrees_with_the_standard_however_it_is_split(stream, cuts):
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in pairwise(edges)]

    assert decode(*pieces) == naive(stream)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(b"".join))
def test_agrees_with_the_standard_byte_by_byte(stream):
    assert decode(*(stream[i : i + 1] for i in range(len(stream)))) == naive(stream)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: x\n\n", [Event(data="x")], id="plain"),
        pytest.param(b"data:x\n\n", [Event(data="x")], id="no-space"),
        pytest.param(b"data:  x\n\n", [Event(data=" x")], id="only-one-space-is-removed"),
        pytest.param(b"data:\n\n", [Event(data="")], id="empty-data-is-data"),
        pytest.param(b"data\n\n", [Event(data="")], id="field-without-colon"),
        pytest.param(b"data: a\ndata: b\n\n", [Event(data="a\nb")], id="two-data-lines"),
        pytest.param(b"event: a\ndata: x\n\n", [Event("a", "x")], id="name"),
        pytest.param(b"event: \ndata: x\n\n", [Event(data="x")], id="name-of-nothing"),
        pytest.param(b"event:  a\ndata:x\n\n", [Event(" a", "x")], id="name-with-a-space"),
        pytest.param(b"data: x\nevent: a\n\n", [Event("a", "x")], id="name-after-data"),
        pytest.param(b"event: \xff\ndata: x\n\n", [Event("\ufffd", "x")], id="broken-name"),
        pytest.param(b"event: ping\n\n", [], id="name-without-data"),
        pytest.param(b"event: a\n\ndata: x\n\n", [Event(data="x")], id="name-is-not-kept"),
        pytest.param(b"event:\ndata: x\n\n", [Event(data="x")], id="empty-name-is-message"),
        pytest.param(b"retry: 10\n\n", [], id="retry-alone"),
        pytest.param(b"retry: 10\ndata: x\n\n", [Event(data="x", retry=10)], id="retry"),
        pytest.param(b"retry: 1e3\ndata: x\n\n", [Event(data="x")], id="retry-not-digits"),
        pytest.param(b"retry:\ndata: x\n\n", [Event(data="x")], id="retry-empty"),
        pytest.param(b"id: 7\n\ndata: x\n\n", [Event(data="x", id="7")], id="id-alone-is-kept"),
        pytest.param(
            b"id: 7\ndata: x\n\nid\ndata: y\n\n",
            [Event(data="x", id="7"), Event(data="y")],
            id="empty-id-resets",
        ),
        pytest.param(b"id: 7\nid: 8\0\ndata: x\n\n", [Event(data="x", id="7")], id="id-with-nul"),
        pytest.param(
            b"id: 7\ndata: x\n\n: ping\n\n", [Event(data="x", id="7")], id="comment-after-id"
        ),
        pytest.param(b": ping\ndata: x\n\n", [Event(data="x")], id="comment-before-data"),
        pytest.param(b"other: 1\nDATA: no\ndata: x\n\n", [Event(data="x")], id="unknown-fields"),
        pytest.param(
            "data: a\u2028b\u2029c\x85\x0b\x0c\x1c\n\n".encode(),
            [Event(data="a\u2028b\u2029c\x85\x0b\x0c\x1c")],
            id="unicode-line-ends-are-text",
        ),
        pytest.param(b"\xef\xbb\xbfdata: x\n\n", [Event(data="x")], id="bom"),
        pytest.param(b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n", [], id="second-bom-is-text"),
        pytest.param(b"data: \xff\n\n", [Event(data="\ufffd")], id="broken-utf-8"),
        pytest.param(
            b"data: x\r\rdata: y\r\n\ndata: z\n\r",
            [Event(data="x"), Event(data="y"), Event(data="z")],
            id="mixed-line-ends",
        ),
        pytest.param(b"data: x\n", [], id="no-blank-line-yet"),
    ],
)
def test_reads_as_the_standard_says(stream, expected):
    assert decode(stream) == expected
    assert decode(*(stream[i : i + 1] for i in range(len(stream)))) == expected


def test_a_character_may_be_cut_between_reads():
    assert decode(b"data: \xf0\x9d", b"\x84", b"\x9e\n\n") == [Event(data="𝄞")]


def test_a_bom_may_be_cut_over_three_reads():
    assert decode(b"\xef", b"\xbb", b"\xbfdata: x\n\n") == [Event(data="x")]


def test_an_event_comes_with_its_blank_line_not_with_the_byte_after_it():
    decoder = SSEDecoder()

    assert decoder.feed(b"data: x\r\n\r") == [Event(data="x")]
    assert decoder.feed(b"\ndata: y\r\n\r\n") == [Event(data="y")]


def test_zero_bytes_change_nothing():
    assert decode(b"data: x\n", b"", b"\n") == [Event(data="x")]


def test_retry_outlives_its_block():
    decoder = SSEDecoder()

    decoder.feed(b"retry: 1500\n\nretry: " + b"9" * 5000 + b"\n\n")

    assert decoder.retry == 1500


def test_comments_are_kept_for_whoever_takes_them():
    decoder = SSEDecoder()

    events = decoder.feed(b": ping\n\n:  server-timing decode;dur=12\ndata: x\n\n")

    assert events == [Event(data="x")]
    assert decoder.comments == ["ping", " server-timing decode;dur=12"]


def test_comments_that_nobody_takes_are_bounded():
    decoder = SSEDecoder()

    decoder.feed(b"".join(b": %d\n\n" % i for i in range(1000)) + b":" + b"x" * 100_000 + b"\n\n")

    assert len(decoder.comments) == 64
    assert decoder.comments[0] == "937"
    assert len(decoder.comments[-1]) == 8192


def test_close_drops_the_unfinished_block():
    decoder = SSEDecoder()
    decoder.feed(b"data: whole\n\ndata: half\n")

    assert decoder.close() == []


def test_feed_after_close_is_an_error():
    decoder = SSEDecoder()
    decoder.close()

    with pytest.raises(ValueError, match="closed"):
        decoder.feed(b"data: x\n\n")


def test_a_line_of_a_megabyte_is_an_event():
    [event] = decode(b"data: ", b"x" * 1_000_000, b"\n\n")

    assert len(event.data) == 1_000_000


@pytest.mark.parametrize("size", [1, 3, 1000], ids=["bytewise", "in-threes", "at-once"])
def test_the_size_limit_does_not_depend_on_the_split(size):
    stream = b"data: a\n\ndata: 6789\n\ndata: 67890\n\ndata: b\n\n"
    decoder = SSEDecoder(max_event_bytes=10)
    events: list[Event] = []

    with pytest.raises(_errors.EventTooLargeError) as caught:
        for i in range(0, len(stream) + size, size):
            events += decoder.feed(stream[i : i + size])

    assert events == [Event(data="a"), Event(data="6789")]
    assert caught.value.limit == 10
    assert "10 bytes" in str(caught.value)


def test_a_stream_without_blank_lines_is_not_kept_for_ever():
    decoder = SSEDecoder(max_event_bytes=100_000)

    with pytest.raises(_errors.EventTooLargeError):
        for _ in range(1000):
            decoder.feed(b"data: " + b"x" * 994)
    with pytest.raises(ValueError, match="closed"):
        decoder.feed(b"\n\n")


def test_the_limit_must_be_positive():
    with pytest.raises(ValueError, match="at least 1"):
        SSEDecoder(max_event_bytes=0)


def test_a_huge_line_in_small_pieces_costs_linear_time():
    """Searching what has been searched before would take minutes here."""
    decoder = SSEDecoder()
    piece = b"x" * 64
    started = time.process_time()

    for _ in range(100_000):
        decoder.feed(piece)

    assert len(decoder.feed(b"\ndata: y\n\n")) == 1
    assert time.process_time() - started < 5
