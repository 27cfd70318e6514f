"""Connections: opened, shared, timed and reused; no policy and no wire format is known here."""

from __future__ import annotations

from .options import NetOptions

__all__ = ["NetOptions"]
