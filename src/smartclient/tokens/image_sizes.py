"""The width and height of an image, from the first bytes of its base64; no pixel is decoded.

Source: PNG (RFC 2083), section 3; GIF89a, section 18; JPEG (T.81), B.2.2; WebP container.
"""

from __future__ import annotations

import binascii
from struct import unpack_from
from typing import TypeAlias

__all__ = ["Size", "base64_of", "image_size", "size_of"]

Size: TypeAlias = tuple[int, int]

_STEPS = (4_096, 262_144, 4_194_304)  # characters: a photo's preview may stand before its size
_FRAMES = frozenset(
    {*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)}
)


def base64_of(url: str) -> str | None:
    """What a `data:` URL holds; `None` for any other."""
    if url[:5].lower() != "data:":
        return None
    head, comma, data = url.partition(",")
    return data if comma and head.endswith(";base64") else None


def image_size(data: str) -> Size | None:
    """Of base64 `data`; `None` when it is no image that we know, or a broken one."""
    for step in _STEPS:
        try:
            head = binascii.a2b_base64(data[: step // 4 * 4] if len(data) > step else data)
        except (binascii.Error, ValueError):
            return None
        size = size_of(head)
        if size is not None or len(data) <= step:
            return size
    return None


def size_of(head: bytes) -> Size | None:
    """Of an image that begins with `head`."""
    try:
        found = _size(head)
    except (IndexError, ValueError, ArithmeticError, _TooShort):
        return None
    return found if found and found[0] > 0 and found[1] > 0 else None


class _TooShort(Exception):  # noqa: N818 (never leaves this file)
    """The size stands behind what is there."""


def _size(head: bytes) -> Size | None:
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return _ints(">II", head, 16)
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return _ints("<HH", head, 6)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp(head)
    return _jpeg(head) if head[:2] == b"\xff\xd8" else None


def _ints(form: str, head: bytes, at: int) -> Size:
    if len(head) < at + (8 if "I" in form else 4):
        raise _TooShort
    width, height = unpack_from(form, head, at)
    return int(width), int(height)


def _webp(head: bytes) -> Size | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = _ints("<HH", head, 26)
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(head: bytes) -> Size:
    """Walk the segments to the one of the frame."""
    at = 2
    while at + 9 <= len(head):
        if head[at] != 0xFF:
            raise ValueError
        marker = head[at + 1]
        if marker == 0xFF:  # filling
            at += 1
        elif marker in _FRAMES:
            height, width = _ints(">HH", head, at + 5)
            return width, height
        else:
            at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    raise _TooShort
