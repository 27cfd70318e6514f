from __future__ import annotations

import pytest

from server_reference.scripted.framing import Framing
from server_reference.scripted.ops import Body, End, Fin, Head, Raw


def framed(*ops, method="POST", version="1.1", keeps_alive=True):
    framing = Framing(method, version, keeps_alive=keeps_alive)
    return b"".join(map(framing.encode, ops)), framing


def test_chunks_end_with_an_empty_one():
    sent, _ = framed(Head(200), Body(b"hello"), Body(b""), End())

    assert sent == (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize("length", [5, 7])
def test_a_length_is_said_right_or_wrong(length):
    sent, _ = framed(Head(200, framing="length", length=length), Body(b"hello"), End())

    assert sent == b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\nhello" % length


def test_a_body_that_ends_with_the_connection_says_so():
    sent, framing = framed(Head(200, framing="close"), Body(b"hello"), End())

    assert sent == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello"
    assert framing.closes


def test_the_older_version_is_sent_no_chunks():
    sent, framing = framed(Head(200), Body(b"hello"), End(), version="1.0", keeps_alive=False)

    assert sent.endswith(b"\r\n\r\nhello")
    assert framing.closes


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_some_replies_have_no_body(method, status):
    sent, _ = framed(Head(status), Body(b"hello"), End(), method=method)

    assert sent.endswith(b"\r\n\r\n")
    assert b"hello" not in sent


def test_an_interim_reply_is_a_head_alone():
    sent, _ = framed(Head(103, (("link", "</a>"),)), Head(200, framing="length", length=0), End())

    assert sent == (
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    )


def test_raw_bytes_are_past_all_framing():
    assert framed(Raw(b"\x00garbage"))[0] == b"\x00garbage"


def test_a_reason_may_be_any():
    assert framed(Head(529, reason="Too Hot", framing="close"))[0].startswith(
        b"HTTP/1.1 529 Too Hot\r\n"
    )


def test_a_header_may_hold_any_byte():
    sent, _ = framed(Head(200, (("x", "é\udcff"),), framing="close"))

    assert b"x: \xc3\xa9\xff\r\n" in sent


def test_only_an_end_ends_a_reply():
    _, cut = framed(Head(200), Body(b"x"), Fin())
    _, whole = framed(Head(200), Body(b"x"), End())

    assert (cut.has_ended, whole.has_ended) == (False, True)
