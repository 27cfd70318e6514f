"""From requests to tokens: schedule, build a batch, run, sample, publish."""

from __future__ import annotations

__all__: list[str] = []
