"""Rules about calls: one file each, none of which knows another."""

from __future__ import annotations

__all__: list[str] = []
