"""Wire formats: what clients send becomes one request, one event stream becomes their replies."""

from __future__ import annotations

__all__: list[str] = []
