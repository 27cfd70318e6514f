"""Models as files: what they are made of, and what is made of them."""

from __future__ import annotations

__all__: list[str] = []
