"""What a GPU makes of the kernels and of the engine: checked, then timed beside torch."""

from __future__ import annotations

__all__: list[str] = []
