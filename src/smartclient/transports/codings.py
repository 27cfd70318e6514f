"""Content-encodings undone piece by piece, as they are sent and not only as they should be.

What comes out is taken in pieces of a bounded size, so that a body that is small on the wire
and huge without its encoding costs no more memory than its reader wants to have.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

__all__ = ["PIECE", "CodingError", "Codings", "accepted", "codings_of"]

PIECE = 1 << 16
"""Most bytes that are decoded at a time."""

_MAX_CODINGS = 5
_BETWEEN = 64 * 1024  # from one coding to the next
_FOR_NOTHING = 16 << 20  # bytes between codings that come to none of the body at once
_WINDOW_LOG = 23  # 8 MiB, the most that HTTP allows zstd (RFC 9659, section 3)
_ZSTD_INPUT = 64  # a block of a few bytes may come to 128 KiB, and nothing bounds the output


class CodingError(Exception):
    """Bytes that are not in the coding that they should be in."""


class _Coding(Protocol):
    """Undoes one coding."""

    @property
    def is_whole(self) -> bool:
        """Whether what has come so far may be all of it: nothing, or a body with its end."""

    def put(self, data: bytes) -> None:
        """Take the next bytes; only when `take` has nothing left."""

    def take(self, limit: int) -> bytes:
        """At most about `limit` bytes of what `put` was given; `b""`: there are no more."""


class Codings:
    """Undoes the codings of one body.

    Args:
        stages: The coding that was applied last comes first.
    """

    __slots__ = ("_stages", "_wasted")

    def __init__(self, stages: list[_Coding]) -> None:
        self._stages = stages
        self._wasted = 0

    @property
    def is_whole(self) -> bool:
        """Whether what has come so far may be all of the body, by its codings."""
        return all(stage.is_whole for stage in self._stages)

    def put(self, data: bytes) -> None:
        """Take the next bytes of the body; only when `take` has nothing left."""
        self._stages[0].put(data)

    def take(self) -> bytes:
        """The next bytes without their codings, about 64 KiB at most; `b""`: feed it more.

        Raises:
            CodingError: It is not encoded so, or is next to nothing in a lot of coding.
        """
        self._wasted = 0
        return self._take(len(self._stages) - 1, PIECE)

    def _take(self, at: int, limit: int) -> bytes:
        stage = self._stages[at]
        while not (data := stage.take(limit)) and at and (fed := self._take(at - 1, _BETWEEN)):
            self._wasted += len(fed)
            if self._wasted > _FOR_NOTHING:
                raise CodingError(
                    f"{_FOR_NOTHING >> 20} MiB between its codings came to no byte of the body"
                )
            stage.put(fed)
        return data


def codings_of(encoding: str | None) -> Codings | None:
    """What undoes `encoding`; `None` where there is nothing to undo.

    Raises:
        CodingError: It is none that we know, or too many of them.
    """
    if not encoding:
        return None
    names = [name.strip().lower() for name in encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    makers = _makers() if names else {}
    if len(names) > _MAX_CODINGS:
        raise CodingError(
            f"the reply's content-encoding {encoding[:80]!r} names {len(names)} codings, and at "
            f"most {_MAX_CODINGS} are undone: each can make a small body huge"
        )
    if any(name not in makers for name in names):
        raise CodingError(
            f"the reply's content-encoding {encoding[:80]!r} is none that was asked for; "
            f"only {accepted()} can be read"
        )
    return Codings([makers[name]() for name in reversed(names)]) if names else None


@lru_cache(maxsize=1)
def accepted() -> str:
    """The codings that can be undone here, as `accept-encoding` names them."""
    return ", ".join(name for name in _makers() if not name.startswith("x-"))


@lru_cache(maxsize=1)
def _makers() -> dict[str, Callable[[], _Coding]]:
    makers: dict[str, Callable[[], _Coding]] = {
        "gzip": lambda: _Zlib(31),
        "x-gzip": lambda: _Zlib(31),
        "deflate": lambda: _Zlib(15),
    }
    brotli = _bounded_brotli()
    if brotli is not None:
        makers["br"] = lambda: _Brotli(brotli)
    for name in ("compression.zstd", "backports.zstd"):
        if _is_there(name):
            makers["zstd"] = partial(_BoundedZstd, name)
            return makers
    if _is_there("zstandard"):
        makers["zstd"] = _Zstd
    return makers


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False


def _bounded_brotli() -> Any:
    """A brotli module whose output can be bounded: older ones cannot stop at a bomb."""
    for name in ("brotli", "brotlicffi"):
        if _is_there(name):
            module = import_module(name)
            if hasattr(module.Decompressor, "can_accept_more_data"):
                return module
    return None


class _Zlib:
    """Undoes gzip, in one member or several, or deflate, with zlib's header or without.

    Args:
        wbits: zlib's: 31 for gzip, 15 for deflate.

    Source:
        RFC 1952, section 2.2 (members follow each other); RFC 9110, section 8.4.1.2 (some
        send deflate raw).
    """

    __slots__ = ("_has_more", "_is_untouched", "_pending", "_start", "_wbits", "_zlib")

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._start: bytes | None = b""  # of a deflate body, until its form is known
        self._zlib = zlib.decompressobj(wbits)
        self._pending = b""
        self._has_more = False  # zlib may hold output though it has no input
        self._is_untouched = True

    @property
    def is_whole(self) -> bool:
        return self._zlib.eof or self._is_untouched

    def put(self, data: bytes) -> None:
        self._is_untouched = self._is_untouched and not data
        if self._start is not None:
            data = self._settle(self._start + data)
        self._pending = data

    def take(self, limit: int) -> bytes:
        out = b""
        while (self._pending or self._has_more) and not out:
            if self._zlib.eof:
                if self._wbits != 31 or self._pending[:1] != b"\x1f":
                    self._pending, self._has_more = b"", False
                    break  # no member of a gzip body: padding
                self._zlib = zlib.decompressobj(self._wbits)
            try:
                out = self._zlib.decompress(self._pending, limit)
            except zlib.error as error:
                raise CodingError(str(error)) from error
            is_over = self._zlib.eof
            self._pending = self._zlib.unused_data if is_over else self._zlib.unconsumed_tail
            self._has_more = len(out) == limit and not is_over
        return out

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


class _Brotli:
    """Undoes br with either module; both have the same methods."""

    __slots__ = ("_decompressor", "_error", "_is_untouched", "_pending")

    def __init__(self, module: Any) -> None:
        self._decompressor = module.Decompressor()
        self._error = module.error
        self._pending: bytes | None = None
        self._is_untouched = True

    @property
    def is_whole(self) -> bool:
        return self._is_untouched or bool(self._decompressor.is_finished())

    def put(self, data: bytes) -> None:
        self._is_untouched = self._is_untouched and not data
        self._pending = data

    def take(self, limit: int) -> bytes:
        brotli, out = self._decompressor, b""
        while not out and not brotli.is_finished():
            is_hungry = brotli.can_accept_more_data()
            if is_hungry and not self._pending:
                break
            data, self._pending = (
                (self._pending or b"", None) if is_hungry else (b"", self._pending)
            )
            try:
                out = brotli.process(data, output_buffer_limit=limit)
            except self._error as error:
                raise CodingError(f"br: {error}") from error
        return out


class _Zstd:
    """Undoes zstd, in one frame or several, with the package `zstandard`."""

    __slots__ = ("_decompressor", "_error", "_frame", "_is_untouched", "_out", "_pending")

    def __init__(self) -> None:
        module: Any = import_module("zstandard")
        self._decompressor = module.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG)
        self._error = module.ZstdError
        self._frame = self._decompressor.decompressobj()
        self._pending = self._out = memoryview(b"")
        self._is_untouched = True

    @property
    def is_whole(self) -> bool:
        return self._is_untouched or bool(self._frame.eof)

    def put(self, data: bytes) -> None:
        self._is_untouched = self._is_untouched and not data
        self._pending = memoryview(data)

    def take(self, limit: int) -> bytes:
        pieces, size = [], 0
        while not self._out and self._pending and size < limit:
            if self._frame.eof:
                self._frame = self._decompressor.decompressobj()
            fed, self._pending = self._pending[:_ZSTD_INPUT], self._pending[_ZSTD_INPUT:]
            try:
                pieces.append(self._frame.decompress(fed))
            except self._error as error:
                raise CodingError(f"zstd: {error}") from error
            size += len(pieces[-1])
            if self._frame.eof and (unused := self._frame.unused_data):
                self._pending = memoryview(unused + self._pending)
        if pieces:
            self._out = memoryview(b"".join(pieces))
        taken, self._out = bytes(self._out[:limit]), self._out[limit:]
        return taken


class _BoundedZstd:
    """Undoes zstd with what Python has from 3.14 on, or its backport."""

    __slots__ = ("_error", "_frame", "_is_untouched", "_make", "_pending")

    def __init__(self, name: str) -> None:
        module: Any = import_module(name)
        options = {module.DecompressionParameter.window_log_max: _WINDOW_LOG}
        self._make: Callable[[], Any] = partial(module.ZstdDecompressor, options=options)
        self._error = module.ZstdError
        self._frame = self._make()
        self._pending = b""
        self._is_untouched = True

    @property
    def is_whole(self) -> bool:
        return self._is_untouched or bool(self._frame.eof)

    def put(self, data: bytes) -> None:
        self._is_untouched = self._is_untouched and not data
        self._pending = data

    def take(self, limit: int) -> bytes:
        out = b""
        while not out:
            if self._frame.eof:
                self._pending = self._frame.unused_data or self._pending
                if not self._pending:
                    break
                self._frame = self._make()
            if self._frame.needs_input and not self._pending:
                break
            fed, self._pending = self._pending, b""
            try:
                out = self._frame.decompress(fed, limit)
            except self._error as error:
                raise CodingError(f"zstd: {error}") from error
        return out
