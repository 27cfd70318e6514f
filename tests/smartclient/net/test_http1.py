"""Bytes in any pieces to replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartclient.net.failures import BadReplyError
from smartclient.net.http1 import HEAD_LIMIT, ReplyParser
from smartclient.net.http1_request import chunk

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def parsed(*pieces: bytes, method: str = "POST") -> ReplyParser:
    parser = ReplyParser(method)
    for piece in pieces:
        parser.feed(piece)
    return parser


SAMPLES = [
    pytest.param("POST", b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 4\r\n\r\nbody", id="length"),
    pytest.param("POST", CHUNKED + b"1;x=y\r\nb\r\n3\r\nody\r\n0\r\nt: u\r\n\r\n", id="chunked"),
    pytest.param("POST", b"HTTP/1.1 204 \r\n\r\n", id="no-content"),
    pytest.param("POST", b"HTTP/1.1 304\r\ncontent-length: 9\r\n\r\n", id="not-modified"),
    pytest.param("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", id="head"),
    pytest.param(
        "POST",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb",
        id="interim",
    ),
    pytest.param("POST", b"HTTP/1.1 200 OK\r\n\r\nuntil the close", id="close"),
    pytest.param("POST", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nbX", id="surplus"),
]


def facts(parser: ReplyParser) -> tuple[object, ...]:
    return (
        parser.status,
        parser.reason,
        parser.headers,
        parser.take(),
        parser.is_complete,
        parser.keep_alive,
    )


@pytest.mark.parametrize(("method", "reply"), SAMPLES)
def test_reply_is_the_same_in_whatever_pieces_it_comes(method, reply):
    whole = facts(parsed(reply, method=method))

    splits = [facts(parsed(reply[:i], reply[i:], method=method)) for i in range(1, len(reply))]
    single = facts(parsed(*(reply[i : i + 1] for i in range(len(reply))), method=method))

    assert [*splits, single] == [whole] * len(reply)


@pytest.mark.parametrize(
    ("method", "reply", "expected"),
    [
        pytest.param(*SAMPLES[0].values, (200, "OK", b"body", True, True), id="length"),
        pytest.param(*SAMPLES[1].values, (200, "OK", b"body", True, True), id="chunked"),
        pytest.param(*SAMPLES[2].values, (204, "", b"", True, True), id="no-content"),
        pytest.param(*SAMPLES[3].values, (304, "", b"", True, True), id="not-modified"),
        pytest.param(*SAMPLES[4].values, (200, "OK", b"", True, True), id="head"),
        pytest.param(*SAMPLES[5].values, (200, "OK", b"b", True, True), id="interim"),
        pytest.param(*SAMPLES[6].values, (200, "OK", b"until the close", False, False), id="close"),
        pytest.param(*SAMPLES[7].values, (200, "OK", b"b", True, False), id="surplus"),
    ],
)
def test_reply_is_understood(method, reply, expected):
    parser = parsed(reply, method=method)

    known = (parser.status, parser.reason, parser.take(), parser.is_complete, parser.keep_alive)

    assert known == expected


def test_headers_keep_their_case_and_order_and_trailers_are_none():
    parser = parsed(
        b"HTTP/1.1 200 OK\r\nB: 1\r\na: 2\r\nB: \xe9\r\ntransfer-encoding: chunked\r\n\r\n",
        b"0\r\nX-Sum: 7\r\n\r\n",
    )

    assert parser.headers.fields[:3] == (("B", "1"), ("a", "2"), ("B", "\u00e9"))
    assert (parser.headers.get("x-sum"), parser.is_complete) == (None, True)


def test_second_reply_after_a_chunked_one_is_surplus_and_never_mixed_in():
    parser = parsed(CHUNKED + b"1\r\na\r\n0\r\n\r\nHTTP/1.1 500 No\r\nb: c\r\n\r\n")

    assert (parser.status, parser.headers.get("b"), parser.take()) == (200, None, b"a")
    assert (parser.is_complete, parser.keep_alive) == (True, False)


def test_close_is_the_end_of_a_body_without_length():
    parser = parsed(b"HTTP/1.1 200 OK\r\n\r\nall", b"")

    assert (parser.take(), parser.is_complete, parser.keep_alive) == (b"all", True, False)


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n", True, id="1.1"),
        pytest.param(b"HTTP/1.1 200 OK\r\nConnection: Close\r\n", False, id="close"),
        pytest.param(b"HTTP/1.1 200 OK\r\nconnection: x, close\r\n", False, id="close-in-a-list"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nconnection: close\r\nconnection: keep-alive\r\n",
            False,
            id="close-comes-first",
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\n", False, id="1.0"),
        pytest.param(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n", True, id="1.0-keep-alive"),
    ],
)
def test_connection_is_kept_as_the_reply_says(head, keeps):
    assert parsed(head + b"content-length: 0\r\n\r\n").keep_alive is keeps


def test_connection_of_an_old_server_that_sends_chunks_is_not_used_again():
    head = b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n"
    parser = parsed(head + b"1\r\na\r\n0\r\n\r\n")

    assert (parser.take(), parser.is_complete, parser.keep_alive) == (b"a", True, False)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param(b"timeout=5, max=100", 4.0, id="one-second-less"),
        pytest.param(b"Timeout = 1", 0.0, id="not-below-zero"),
        pytest.param(b"max=100", 60.0, id="only-max"),
        pytest.param(b"timeout=soon", 60.0, id="no-number"),
    ],
)
def test_server_may_announce_how_long_it_keeps_the_connection(value, seconds):
    parser = parsed(b"HTTP/1.1 200 OK\r\nkeep-alive: " + value + b"\r\n\r\n")

    assert parser.expires(100.0, 60.0) == 100.0 + seconds
    assert parser.expires(100.0, 2.0) == 100.0 + min(seconds, 2.0)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n", "protocol", id="another-protocol"),
        pytest.param(b"\r\nHTTP/1.1 200 OK\r\n\r\n", "protocol", id="stray-line-break"),
        pytest.param(b"HTTP/2.0 200 OK\r\n\r\n", "protocol", id="another-version"),
        pytest.param(b"HTTP/1.1 20 OK\r\n\r\n", "protocol", id="short-status"),
        pytest.param(b"HTTP/1.1 200 OK\na: b\n\n", "protocol", id="bare-line-feeds"),
        pytest.param(b"HTTP/1.1 200 OK\r\na b: c\r\n\r\n", "protocol", id="space-in-a-name"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "protocol", id="negative"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "protocol",
            id="two-lengths",
        ),
        pytest.param(CHUNKED[:-2] + b"content-length: 3\r\n\r\n", "protocol", id="two-framings"),
        pytest.param(CHUNKED + b"-1\r\n", "protocol", id="negative-chunk"),
        pytest.param(CHUNKED + b"2\r\nabX", "protocol", id="chunk-too-long"),
        pytest.param(CHUNKED + b"f" * 17 + b"\r\n", "protocol", id="chunk-size-overflow"),
        pytest.param(b"HTTP/1.1 200 OK\r\na: " + b"x" * HEAD_LIMIT, "limit", id="endless-header"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 11_000 + b"\r\n", "limit", id="many-headers"
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 3_000, "limit", id="endless-interim"),
        pytest.param(b"HTTP/1.1 101 Switching\r\n\r\n", "unsupported", id="upgrade"),
        pytest.param(b"HTTP/1.1 000 None\r\n\r\n", "protocol", id="status-below-100"),
        pytest.param(CHUNKED.replace(b"chunked", b"gzip"), "protocol", id="coding-not-asked-for"),
        pytest.param(CHUNKED.replace(b": ", b": gzip, "), "protocol", id="coding-within-chunks"),
        pytest.param(
            CHUNKED.replace(b"\r\n\r\n", b"\r\ntransfer-encoding: chunked\r\n\r\n"),
            "protocol",
            id="chunked-twice",
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 4096, 1 << 20])
def test_what_is_no_reply_is_refused_in_whatever_pieces(reply, kind, size):
    pieces = [reply[i : i + size] for i in range(0, len(reply), size)]

    with pytest.raises(BadReplyError) as error:
        parsed(*pieces)

    assert error.value.kind == kind


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"0\r\n" + b"t: u\r\n", id="trailers"),
        pytest.param(b"5;" + b"x" * 100, id="chunk-extension"),
    ],
)
def test_bytes_between_chunks_are_bounded(endless):
    parser = parsed(CHUNKED + endless)

    with pytest.raises(BadReplyError, match="64 KiB between chunks"):
        for _ in range(1000):
            parser.feed(endless[-6:] * 20)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(b"", "before any reply", id="nothing"),
        pytest.param(b"HTTP/1.1 2", "middle of the reply's head", id="head"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nab", "2 of 1,000", id="body"),
        pytest.param(CHUNKED + b"5\r\nab", "after 2 bytes", id="chunk"),
        pytest.param(CHUNKED + b"2\r\nab\r\n0\r\n", "after 2 bytes", id="last-chunk"),
    ],
)
def test_close_before_the_end_says_how_far_it_came(reply, words):
    parser = ReplyParser("POST")
    if reply:
        parser.feed(reply)

    with pytest.raises(BadReplyError, match=words) as error:
        parser.feed(b"")

    assert error.value.kind == "closed"


def test_what_came_before_a_failure_can_still_be_taken():
    parser = ReplyParser("POST")

    with pytest.raises(BadReplyError):
        parser.feed(CHUNKED + b"2\r\nab\r\nzz\r\n")

    assert (parser.take(), parser.failure.kind, parser.keep_alive) == (b"ab", "protocol", False)


def test_dropped_bytes_are_counted_and_gone():
    parser = parsed(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", b"ab", b"c")

    assert (parser.drop(), parser.take(), parser.unread) == (3, b"", 0)


@given(st.binary(max_size=300), st.integers(1, 50))
def test_garbage_is_refused_or_awaited_but_never_breaks_the_parser(data, size):
    parser = ReplyParser("POST")
    pieces = [data[i : i + size] for i in range(0, len(data), size)]

    try:
        for piece in pieces:
            parser.feed(piece)
    except BadReplyError:
        pass

    # A long search finds what is no garbage at all: `HTTP/1.0 200`, a line end, an empty line.
    assert parser.status is None or data.startswith(b"HTTP/1.")


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.integers(1, 30))
def test_chunks_survive_any_pieces(chunks, size):
    reply = CHUNKED + b"".join(map(chunk, chunks)) + b"0\r\n\r\n"

    parser = parsed(*(reply[i : i + size] for i in range(0, len(reply), size)))

    assert (parser.take(), parser.is_complete) == (b"".join(chunks), True)
