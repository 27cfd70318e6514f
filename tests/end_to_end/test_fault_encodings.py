"""The bytes of each fault in the encoding of a body."""

from __future__ import annotations

import gzip
import zlib

import pytest

from tests.end_to_end.fault_bytes import END, broken, case, whole


@pytest.mark.parametrize("name", ["gzip_flushed", "gzip_unflushed", "gzip_members"])
def test_a_body_is_gzip(name):
    seen = broken(case(name))

    assert b"\r\ncontent-encoding: gzip\r\n" in seen.head
    assert gzip.decompress(b"".join(seen.chunks)) == b"".join(whole("openai.chat").chunks)


def test_a_flushed_gzip_gives_each_event_at_once():
    decoder = zlib.decompressobj(wbits=31)
    events = [decoder.decompress(chunk) for chunk in broken(case("gzip_flushed")).chunks]

    assert [event for event in events if event] == whole("openai.chat").chunks


def test_members_hold_an_event_each():
    seen = broken(case("gzip_members"))

    assert [gzip.decompress(chunk) for chunk in seen.chunks] == whole("openai.chat").chunks


def test_some_chunks_decode_to_nothing():
    decoder = zlib.decompressobj(wbits=31)
    events = [decoder.decompress(chunk) for chunk in broken(case("zero_length_chunks")).chunks]

    assert events[:4:2] == whole("openai.chat").chunks[:2]
    assert events[1::2] == [b""] * 6
    assert decoder.eof


def test_a_gzip_breaks():
    good, bad = broken(case("gzip_broken")).chunks
    decoder = zlib.decompressobj(wbits=31)

    assert decoder.decompress(good) == whole("openai.chat").chunks[0]
    with pytest.raises(zlib.error):
        decoder.decompress(bad)


def test_a_gzip_ends_early():
    seen = broken(case("gzip_cut"))
    decoder = zlib.decompressobj(wbits=31)
    text = b"".join(whole("openai.chat").chunks)

    assert decoder.decompress(b"".join(seen.chunks)) == text
    assert (decoder.eof, seen.tail, seen.end) == (False, END, "open")


def test_encodings_are_chained():
    seen = broken(case("chained_encodings"))
    body = b"".join(seen.chunks)
    for _ in range(6):
        body = gzip.decompress(body)

    assert b"content-encoding: gzip, gzip, gzip, gzip, gzip, gzip\r\n" in seen.head
    assert body == b"".join(whole("openai.chat").chunks)


TESTED = {
    "chained_encodings",
    "gzip_broken",
    "gzip_cut",
    "gzip_flushed",
    "gzip_members",
    "gzip_unflushed",
    "zero_length_chunks",
}
