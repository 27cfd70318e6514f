"""Heads of images of any size, without pixels."""

from __future__ import annotations

from base64 import b64encode
from struct import pack

__all__ = ["base64", "gif", "jpeg", "png", "webp"]


def png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n" + pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06" + bytes(9)
    )


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + pack("<HH", width, height) + bytes(20)


def jpeg(width: int, height: int, *, preview: int = 100) -> bytes:
    """A photo whose size stands behind `preview` bytes of other segments."""
    head = b"\xff\xd8"
    while preview > 0:
        size = min(preview, 65_000)
        head += b"\xff\xe1" + pack(">H", size + 2) + bytes(size)
        preview -= size
    return head + b"\xff\xff\xc0" + pack(">HBHH", 17, 8, height, width) + bytes(20)


def webp(kind: bytes, width: int, height: int) -> bytes:
    head = b"RIFF" + bytes(4) + b"WEBP" + kind + bytes(4)
    if kind == b"VP8X":
        body = bytes(4) + pack("<I", width - 1)[:3] + pack("<I", height - 1)[:3]
    elif kind == b"VP8L":
        body = b"\x2f" + pack("<I", (width - 1) | (height - 1) << 14)
    else:
        body = bytes(3) + b"\x9d\x01\x2a" + pack("<HH", width, height)
    return head + body + bytes(20)


def base64(image: bytes) -> str:
    return b64encode(image).decode()
