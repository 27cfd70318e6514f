"""Our engine and its peers, each in a process of its own, on the same closed loop."""

from __future__ import annotations

__all__: list[str] = []
