"""Drivers that run flows, and the places where they meet a connection."""

from __future__ import annotations

__all__: list[str] = []
