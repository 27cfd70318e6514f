"""Between text and tokens, both ways."""

from __future__ import annotations

__all__: list[str] = []
