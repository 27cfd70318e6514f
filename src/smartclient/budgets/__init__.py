"""What calls may use: a limit per window, per tag, and one inside another."""

from __future__ import annotations

from .budget import Budget

__all__ = ["Budget"]
