"""What `scripts/bench` measures, and the counts that `scripts/bench --gate` compares."""

from __future__ import annotations

__all__: list[str] = []
