"""A provider's prompt cache: what it keeps, where marks pay, and why a hit was missed.

Decisions only, on plain values; `policies/cache_hints.py` carries them out.
"""

from __future__ import annotations

from .._cache_hints import CacheHints
from .blocks import Block, Mark, Tier, Walk

__all__ = ["Block", "CacheHints", "Mark", "Tier", "Walk"]
