"""Bodies that are compressed, in the forms in which servers send them."""

from __future__ import annotations

import gzip
import sys
import zlib

import brotli
import pytest
import zstandard

from smartclient.transports import codings
from smartclient.transports.codings import PIECE, CodingError, accepted, codings_of

TEXT = b"data: What is the capital of France?\n\n" * 3
HUGE = 1 << 26
ZSTD = zstandard.ZstdCompressor().compress


def flushed(wbits: int) -> bytes:
    """Each third of the text made readable at once, as a stream is."""
    packer = zlib.compressobj(wbits=wbits)
    third = len(TEXT) // 3
    parts = [TEXT[:third], TEXT[third : 2 * third], TEXT[2 * third :]]
    packed = b"".join(packer.compress(p) + packer.flush(zlib.Z_SYNC_FLUSH) for p in parts)
    return packed + packer.flush()


def taken(undoing) -> bytes:
    return b"".join(iter(undoing.take, b""))


def undone(encoding: str, data: bytes, size: int) -> bytes:
    undoing, out = codings_of(encoding), b""
    for at in range(0, len(data), size):
        undoing.put(data[at : at + size])
        out += taken(undoing)
    assert undoing.is_whole
    return out


def zeros(packer, size: int = HUGE) -> bytes:
    """A bomb: `size` zeros, packed by an object with `compress` and `flush`."""
    block = bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(size >> 20)) + packer.flush()


@pytest.fixture(params=["backports.zstd", "zstandard"])
def zstd(request, monkeypatch):
    """Each module that undoes zstd, whatever else is there."""
    for name in ("compression.zstd", "backports.zstd"):
        if name != request.param:
            monkeypatch.setitem(sys.modules, name, None)
    there = codings._is_there
    monkeypatch.setattr(
        codings, "_is_there", lambda name: name not in _OTHERS[request.param] and there(name)
    )
    codings._makers.cache_clear()
    yield request.param
    codings._makers.cache_clear()


_OTHERS = {
    "backports.zstd": ("compression.zstd",),
    "zstandard": ("compression.zstd", "backports.zstd"),
}


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        pytest.param("gzip", flushed(31), id="gzip"),
        pytest.param("X-GZip", gzip.compress(TEXT), id="its-old-name"),
        pytest.param("gzip", gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:]), id="members"),
        pytest.param("gzip", gzip.compress(TEXT) + b"\0\0", id="padding"),
        pytest.param("deflate", flushed(15), id="deflate"),
        pytest.param("deflate", flushed(-15), id="deflate-without-header"),
        pytest.param("deflate, gzip", gzip.compress(flushed(15)), id="both"),
        pytest.param("br", brotli.compress(TEXT), id="br"),
        pytest.param("br, gzip", gzip.compress(brotli.compress(TEXT)), id="br-and-gzip"),
    ],
)
def test_every_form_is_undone_wherever_it_is_split(encoding, data, size):
    assert undone(encoding, data, size) == TEXT


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    "data",
    [pytest.param(ZSTD(TEXT), id="a-frame"), pytest.param(ZSTD(TEXT[:9]) + ZSTD(TEXT[9:]), id="2")],
)
def test_zstd_is_undone_by_whatever_is_there(zstd, data, size):
    assert undone("zstd", data, size) == TEXT


def test_what_was_flushed_can_be_read_before_the_end():
    packer = zlib.compressobj(wbits=31)
    undoing = codings_of("gzip")

    undoing.put(packer.compress(b"a") + packer.flush(zlib.Z_SYNC_FLUSH))

    assert (undoing.take(), undoing.take()) == (b"a", b"")
    assert not undoing.is_whole


@pytest.mark.parametrize("encoding", [None, "", "identity", " , identity"])
def test_where_there_is_no_coding_there_is_nothing_to_undo(encoding):
    assert codings_of(encoding) is None


@pytest.mark.parametrize("encoding", ["rot13", "gzip, compress", ", ".join(["gzip"] * 6)])
def test_what_we_do_not_know_is_named(encoding):
    with pytest.raises(CodingError, match=encoding[:8]):
        codings_of(encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_what_is_not_compressed_is_an_error(encoding):
    undoing = codings_of(encoding)
    undoing.put(b"\xff plain text, and more of it than any header has")

    with pytest.raises(CodingError):
        taken(undoing)


def test_what_is_not_zstd_is_an_error(zstd):
    undoing = codings_of("zstd")
    undoing.put(b"\xff plain text, and more of it than any header has")

    with pytest.raises(CodingError, match="zstd"):
        taken(undoing)


def test_only_what_is_there_is_asked_for(monkeypatch):
    assert accepted() == "gzip, deflate, br, zstd"
    monkeypatch.setattr(codings, "_is_there", lambda name: False)

    codings._makers.cache_clear()
    codings.accepted.cache_clear()
    without = accepted()
    codings._makers.cache_clear()
    codings.accepted.cache_clear()

    assert without == "gzip, deflate"


def test_a_brotli_that_cannot_stop_at_a_bomb_is_not_used(monkeypatch):
    class Older:
        Decompressor = object

    monkeypatch.setattr(codings, "import_module", lambda name: Older)

    assert codings._bounded_brotli() is None


@pytest.mark.parametrize(
    ("encoding", "make"),
    [
        pytest.param("gzip", lambda: zeros(zlib.compressobj(9, wbits=31)), id="gzip"),
        pytest.param("deflate", lambda: zeros(zlib.compressobj(9, wbits=-15)), id="deflate"),
        pytest.param("br", lambda: brotli.compress(bytes(HUGE), quality=1), id="br"),
        pytest.param(
            "gzip, gzip", lambda: gzip.compress(zeros(zlib.compressobj(9, wbits=31))), id="twice"
        ),
    ],
)
def test_a_bomb_is_taken_in_pieces(encoding, make):
    undoing = codings_of(encoding)
    undoing.put(make())

    sizes = [len(undoing.take()) for _ in range(4)]

    assert max(sizes) <= 2 * PIECE  # brotli doubles its buffer until it is enough
    assert sum(sizes) >= PIECE


def test_a_bomb_of_zstd_is_taken_in_pieces(zstd):
    undoing = codings_of("zstd")
    undoing.put(zstandard.ZstdCompressor(level=1).compress(bytes(HUGE)))

    sizes = [len(undoing.take()) for _ in range(4)]

    assert max(sizes) <= 4 * PIECE  # zstandard cannot be stopped within a block
    assert sum(sizes) >= PIECE


def test_codings_that_come_to_nothing_are_given_up():
    empty_blocks = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0\0\0\xff\xff" * (4 << 20)
    undoing = codings_of("gzip, gzip, gzip")
    undoing.put(gzip.compress(gzip.compress(empty_blocks, 1), 1))

    with pytest.raises(CodingError, match="16 MiB between its codings came to no byte"):
        undoing.take()


def test_a_window_of_zstd_that_http_does_not_allow_is_refused(zstd):
    window = zstandard.ZstdCompressionParameters(window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=window).compressobj()
    undoing = codings_of("zstd")
    undoing.put(packer.compress(bytes(1 << 20)) + packer.flush())

    with pytest.raises(CodingError, match="zstd"):
        taken(undoing)
