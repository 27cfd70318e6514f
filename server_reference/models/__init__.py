"""Models: where their files are, how text becomes tokens, and one transformer that runs them."""

from __future__ import annotations

__all__: list[str] = []
