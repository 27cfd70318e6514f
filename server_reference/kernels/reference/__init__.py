"""Every kernel once more, in plain float64 PyTorch: slow, obvious, and right."""

from __future__ import annotations

__all__: list[str] = []
