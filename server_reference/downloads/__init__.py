"""Model files that are fetched once, and where they are kept."""

from __future__ import annotations

__all__: list[str] = []
