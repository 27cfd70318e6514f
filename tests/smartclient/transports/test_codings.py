"""Bodies that are compressed, in the forms in which servers send them."""

from __future__ import annotations

import gzip
import zlib

import pytest

from smartclient.transports.codings import decompressors

TEXT = b"data: What is the capital of France?\n\n" * 3


def flushed(wbits: int) -> bytes:
    """Each third of the text made readable at once, as a stream is."""
    packer = zlib.compressobj(wbits=wbits)
    third = len(TEXT) // 3
    parts = [TEXT[:third], TEXT[third : 2 * third], TEXT[2 * third :]]
    packed = b"".join(packer.compress(p) + packer.flush(zlib.Z_SYNC_FLUSH) for p in parts)
    return packed + packer.flush()


def undone(encoding: str, data: bytes, size: int) -> bytes:
    for decoder in decompressors(encoding):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        data = b"".join(decoder.decompress(piece) for piece in pieces)
    return data


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
        pytest.param("identity", TEXT, id="identity"),
    ],
)
def test_every_form_is_undone_wherever_it_is_split(encoding, data, size):
    assert undone(encoding, data, size) == TEXT


def test_what_was_flushed_can_be_read_before_the_end():
    packer = zlib.compressobj(wbits=31)
    (decoder,) = decompressors("gzip")

    assert decoder.decompress(packer.compress(b"a") + packer.flush(zlib.Z_SYNC_FLUSH)) == b"a"
    assert decoder.decompress(b"") == b""


@pytest.mark.parametrize("encoding", ["br", "gzip, zstd", ", ".join(["gzip"] * 6)])
def test_what_we_do_not_know_is_left_alone(encoding):
    assert decompressors(encoding) is None


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_what_is_not_compressed_is_an_error(encoding):
    (decoder,) = decompressors(encoding)

    with pytest.raises(zlib.error):
        decoder.decompress(b"\xff plain")
