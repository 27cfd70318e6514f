"""Bytes that hold a key or a password: what shows the frames of an error shows nothing of them."""

from __future__ import annotations

__all__ = ["SecretBytes"]


class SecretBytes(bytes):
    def __repr__(self) -> str:
        return f"SecretBytes({len(self):,} bytes, not shown)"
