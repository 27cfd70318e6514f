"""The bytes of each fault in the encoding of a body."""

from __future__ import annotations

import gzip
import zlib

import pytest

from server_reference.scripted.faults.bodies import _zstd_frame
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


def test_frames_of_zstd_hold_an_event_each_and_come_in_halves():
    seen = broken(case("zstd_frames"))
    halves = seen.chunks
    frames = [first + second for first, second in zip(halves[::2], halves[1::2], strict=True)]

    assert b"\r\ncontent-encoding: zstd\r\n" in seen.head
    assert [frame[:4] for frame in frames] == [b"\x28\xb5\x2f\xfd"] * len(frames)
    # One block that is the last and not compressed, after a size of four bytes.
    events = [frame[12:] for frame in frames]
    sizes = [(len(event).to_bytes(4, "little"), (len(event) << 3 | 1)) for event in events]
    assert [(f[5:9], int.from_bytes(f[9:12], "little")) for f in frames] == sizes
    assert events == whole("openai.chat").chunks


def test_a_long_event_has_several_blocks_in_its_frame():
    data = bytes(range(256)) * 1200
    frame, blocks = _zstd_frame(data)[9:], []

    is_last = False
    while not is_last:
        head = int.from_bytes(frame[:3], "little")
        is_last, size = bool(head & 1), head >> 3
        blocks.append(frame[3 : 3 + size])
        frame = frame[3 + size :]

    assert ([len(block) for block in blocks], frame) == ([131072, 131072, 45056], b"")
    assert b"".join(blocks) == data


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
    "zstd_frames",
}
