"""Attention over paged keys and values, on each device."""

from __future__ import annotations

__all__: list[str] = []
