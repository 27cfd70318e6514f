"""The engine's own process, seen from both of its ends."""

from __future__ import annotations

__all__: list[str] = []
