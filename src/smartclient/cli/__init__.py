"""`smartclient`: the command line."""

from __future__ import annotations

from .command import main

__all__ = ["main"]
