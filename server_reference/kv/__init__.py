"""Where keys and values lie: the pool of KV blocks and what it remembers."""

from __future__ import annotations

__all__: list[str] = []
