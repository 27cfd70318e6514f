"""Content-encodings undone piece by piece, as they are sent and not only as they should be."""

from __future__ import annotations

import zlib

__all__ = ["Decompressor", "decompressors"]

_MAX_CODINGS = 5
_WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def decompressors(encoding: str | None) -> list[Decompressor] | None:
    """What undoes `encoding`, in the order to apply; `None` for one that we do not know."""
    if not encoding:
        return []
    names = [name.strip().lower() for name in encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if len(names) > _MAX_CODINGS or any(name not in _WBITS for name in names):
        return None
    return [Decompressor(_WBITS[name]) for name in reversed(names)]


class Decompressor:
    """Undoes gzip, in one member or several, or deflate, with zlib's header or without.

    Args:
        wbits: zlib's: 31 for gzip, 15 for deflate.

    Source:
        RFC 1952, section 2.2 (members follow each other); RFC 9110, section 8.4.1.2 (some
        send deflate raw).
    """

    __slots__ = ("_is_untouched", "_start", "_wbits", "_zlib")

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._start: bytes | None = b""  # of a deflate body, until its form is known
        self._zlib = zlib.decompressobj(wbits)
        self._is_untouched = True

    def decompress(self, data: bytes) -> bytes:
        """What `data`, the next piece of the body, comes to.

        Raises:
            zlib.error: It is not compressed so.
        """
        self._is_untouched = self._is_untouched and not data
        if self._start is not None:
            data = self._settle(self._start + data)
        pieces = []
        while data:
            if self._zlib.eof:
                if self._wbits != 31 or data[:1] != b"\x1f":
                    break  # no member of a gzip body: padding
                self._zlib = zlib.decompressobj(self._wbits)
            pieces.append(self._zlib.decompress(data))
            data = self._zlib.unused_data if self._zlib.eof else b""
        return b"".join(pieces)

    @property
    def is_whole(self) -> bool:
        """Whether what has come so far may be all of it: nothing, or a body with its end."""
        return self._zlib.eof or self._is_untouched

    def _settle(self, start: bytes) -> bytes:
        """Learn the form of deflate from its first two bytes; what can be read now."""
        if self._wbits == 15:
            if len(start) < 2:
                self._start = start
                return b""
            has_header = start[0] & 15 == 8 and int.from_bytes(start[:2]) % 31 == 0
            if not has_header:
                self._zlib = zlib.decompressobj(-15)
        self._start = None
        return start
