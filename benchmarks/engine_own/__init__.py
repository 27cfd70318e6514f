"""What our engine is measured at by itself: with a model, and without one."""

from __future__ import annotations

__all__: list[str] = []
