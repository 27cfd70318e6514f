"""A provider's prompt cache: what it keeps, where marks pay, and why a hit was missed.

Decisions only, on plain values; `policies/cache_hints.py` carries them out.
"""

from __future__ import annotations

from .._cache_hints import CacheHints
from .blocks import Block, Mark, Tier, Walk
from .diagnoses import provider_diagnosis
from .drift import Drift, Move, drift
from .misses import MISS_KINDS, Evidence, Miss, classify
from .prewarming import KeepAlive, keep_alive, prewarm
from .savings import savings
from .tallies import CacheSavings, MarkUse, Tally
from .walk import walk

__all__ = [
    "MISS_KINDS",
    "Block",
    "CacheHints",
    "CacheSavings",
    "Drift",
    "Evidence",
    "KeepAlive",
    "Mark",
    "MarkUse",
    "Miss",
    "Move",
    "Tally",
    "Tier",
    "Walk",
    "classify",
    "drift",
    "keep_alive",
    "prewarm",
    "provider_diagnosis",
    "savings",
    "walk",
]
