"""Faults of the body: encodings, media types and charsets.

Source: RFC 9110, section 8.4; RFC 1952 (gzip); RFC 8878 (zstd); WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import msgspec

from ..ops import Head, Script
from ..request import Received
from .formats import prefix_text
from .parameters import Number, Seconds, Status
from .pieces import Piece, Reply
from .presets import Break, preset

__all__ = [
    "chained_encodings",
    "charset_missing",
    "content_type_in_capitals",
    "content_type_with_semicolon",
    "gzip_broken",
    "gzip_cut",
    "gzip_flushed",
    "gzip_members",
    "gzip_unflushed",
    "html_instead_of_stream",
    "json_instead_of_stream",
    "unknown_encoding",
    "wrong_charset",
    "zero_length_chunks",
    "zstd_frames",
]

_FLUSHED = "envoyproxy/ai-gateway PR#1927; httpx2 PR#946"
_MIME = "web-platform-tests eventsource mime types; ollama PR#14828"
_GZIP = 16 + zlib.MAX_WBITS
_ZSTD_BLOCK = 128 * 1024


@preset(
    "BODY", _FLUSHED, right="Hand each event on when it comes: one decoder for the whole reply."
)
def gzip_flushed() -> Break:
    """The body is gzip, flushed after each event."""
    return lambda reply, received: _encoded(reply, _gzip(reply.pieces, zlib.Z_SYNC_FLUSH))


@preset("BODY", _FLUSHED, right="Decode all of it, though every event comes at the end.")
def gzip_unflushed() -> Break:
    """The body is gzip, and the encoder holds what it can until the end."""
    return lambda reply, received: _encoded(reply, _gzip(reply.pieces, zlib.Z_NO_FLUSH))


@preset("BODY", _FLUSHED, right="Go on with the next member; the first one is not the end.")
def gzip_members() -> Break:
    """Each event is a gzip member of its own."""

    def members(reply: Reply) -> Iterable[Piece]:
        return (replace(p, data=gzip.compress(p.data, mtime=0)) for p in reply.pieces)

    return lambda reply, received: _encoded(reply, members(reply))


@preset("BODY", _FLUSHED, right="An error about the encoding, with the part that could be read.")
def gzip_broken(after: Number = 1) -> Break:
    """The body is gzip, and some of it is no gzip.

    Args:
        after: Events before it.
    """

    def broken(reply: Reply) -> list[Piece]:
        good = list(_gzip(reply.pieces, zlib.Z_SYNC_FLUSH))
        return [*good[:after], Piece(b"\xff" * 32)]

    return lambda reply, received: _encoded(reply, broken(reply))


@preset("BODY", _FLUSHED, right="A gzip that ends early is a cut, as a missing event is.")
def gzip_cut() -> Break:
    """The body is gzip, and its last bytes are missing though the body ends in good order."""

    def cut(reply: Reply) -> list[Piece]:
        whole = b"".join(piece.data for piece in _gzip(reply.pieces, zlib.Z_SYNC_FLUSH))
        return [Piece(whole[:-8])]

    return lambda reply, received: _encoded(reply, cut(reply))


@preset(
    "BODY",
    "httpx2 PR#946 and the limit in its decoder",
    right="Refuse more than five encodings, by name: each can be a bomb.",
)
def chained_encodings(times: Number = 6) -> Break:
    """The body is gzip inside gzip, several times.

    Args:
        times: How often.
    """

    def chained(reply: Reply, received: Received) -> Script:
        body = reply.body
        for _ in range(times):
            body = gzip.compress(body, mtime=0)
        return _encoded(reply, [Piece(body)], ", ".join(["gzip"] * times))

    return chained


@preset(
    "BODY",
    "httpx2 PR#946",
    right="An error that names the encoding; the bytes are never read as text.",
)
def unknown_encoding(name: str = "x-rot13") -> Break:
    """The body says that it has an encoding that nobody asked for or knows.

    Args:
        name: The encoding.
    """
    return lambda reply, received: _encoded(reply, reply.pieces, name)


@preset("BODY", "httpx#2068, #2998", right="A read without bytes is no end and no event.")
def zero_length_chunks() -> Break:
    """Between the events of a gzip come chunks that decode to nothing.

    An empty chunk of HTTP/1.1 would be the body's end; for empty frames of HTTP/2 see
    `empty_data_frames`.
    """

    def with_empty(reply: Reply) -> Iterable[Piece]:
        encoder = zlib.compressobj(wbits=_GZIP)
        for piece in reply.pieces:
            data = encoder.compress(piece.data) + encoder.flush(zlib.Z_SYNC_FLUSH)
            yield replace(piece, data=data)
            yield Piece(encoder.flush(zlib.Z_FULL_FLUSH) or b"\x00\x00\x00\xff\xff")
        yield Piece(encoder.flush())

    return lambda reply, received: _encoded(reply, with_empty(reply))


@preset(
    "BODY",
    "httpx2 PR#946",
    right="Go on with the next frame, across reads; refuse it by name where it was not asked for.",
)
def zstd_frames(gap: Seconds = 0.001) -> Break:
    """The body is zstd, each event a frame of its own that comes in two writes.

    Args:
        gap: Seconds between the two.
    """

    def halves(reply: Reply) -> Iterable[Piece]:
        for piece in reply.pieces:
            frame = _zstd_frame(piece.data)
            middle = len(frame) // 2
            yield replace(piece, data=frame[:middle])
            yield Piece(frame[middle:], wait=gap)

    return lambda reply, received: _encoded(reply, halves(reply), "zstd")


@preset(
    "SSE", _MIME, right="No events: a typed error with the first bytes of the page.", needs="stream"
)
def html_instead_of_stream(status: Status = 200) -> Break:
    """A page of HTML comes in place of the stream, as proxies and login walls send it.

    Args:
        status: The HTTP status.
    """
    page = Piece(b"<!DOCTYPE html><html><body><h1>Please sign in</h1></body></html>\n")

    def replaced(reply: Reply, received: Received) -> Script:
        head = replace(_typed(reply.head, "text/html; charset=utf-8"), status=status)
        return reply.script([page], head=head)

    return replaced


@preset(
    "SSE",
    _MIME,
    right="Read it as an error, or a whole answer; never as an empty stream.",
    needs="stream",
)
def json_instead_of_stream(message: str = "model not loaded") -> Break:
    """An error in JSON comes with status 200 in place of the stream.

    Args:
        message: Its text.
    """

    def replaced(reply: Reply, received: Received) -> Script:
        error = msgspec.json.encode({"error": {"message": message}})
        return reply.script([Piece(error)], head=_typed(reply.head, "application/json"))

    return replaced


@preset("SSE", _MIME, right="It is an event stream.", needs="stream")
def content_type_with_semicolon() -> Break:
    """The media type ends in a semicolon without a parameter."""
    return _with_type("text/event-stream;")


@preset("SSE", _MIME, right="It is an event stream: media types have no case.", needs="stream")
def content_type_in_capitals() -> Break:
    """The media type is written in capitals."""
    return _with_type("TEXT/EVENT-STREAM")


@preset("SSE", _MIME, right="It is an event stream, in UTF-8 as always.", needs="stream")
def charset_missing() -> Break:
    """The media type names no charset."""
    return _with_type("text/event-stream")


@preset(
    "SSE",
    "httpx2 PR#1046; web-platform-tests eventsource/format-utf-8",
    right="Always UTF-8: what the header says of it does not count.",
    needs="stream",
)
def wrong_charset(charset: str = "windows-1252", text: str = "é€ ") -> Break:
    """The header names a charset that the bytes, UTF-8 as always, do not have.

    Args:
        charset: The name.
        text: What is put before the answer's text, so that it matters.
    """

    def renamed(reply: Reply, received: Received) -> Script:
        head = _typed(reply.head, f"text/event-stream; charset={charset}")
        return reply.script(prefix_text(reply.pieces, text) if text else None, head=head)

    return renamed


def _gzip(pieces: Iterable[Piece], flush: Literal[0, 2] | int) -> Iterable[Piece]:
    encoder = zlib.compressobj(wbits=_GZIP)
    for piece in pieces:
        data = encoder.compress(piece.data)
        if flush != zlib.Z_NO_FLUSH:
            data += encoder.flush(flush)
        if data:
            yield replace(piece, data=data)
    yield Piece(encoder.flush())


def _zstd_frame(data: bytes) -> bytes:
    """`data` as one frame of blocks that are not compressed."""
    # Magic number; a single segment whose size has four bytes.
    head = b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little")
    blocks = [data[at : at + _ZSTD_BLOCK] for at in range(0, len(data), _ZSTD_BLOCK)] or [b""]
    heads = [(len(block) << 3).to_bytes(3, "little") for block in blocks]
    heads[-1] = (len(blocks[-1]) << 3 | 1).to_bytes(3, "little")  # the last one says so
    return head + b"".join(one + block for one, block in zip(heads, blocks, strict=True))


def _encoded(reply: Reply, pieces: Iterable[Piece], name: str = "gzip") -> Script:
    head = replace(reply.head, fields=(*reply.head.fields, ("content-encoding", name)))
    return reply.script(pieces, head=head)


def _typed(head: Head, kind: str) -> Head:
    others = [field for field in head.fields if field[0].lower() != "content-type"]
    return replace(head, fields=(("content-type", kind), *others))


def _with_type(kind: str) -> Break:
    return lambda reply, received: reply.script(head=_typed(reply.head, kind))
