"""A provider's prompt cache: what it keeps, where marks pay, and why a hit was missed.

Decisions only, on plain values; `policies/cache_hints.py` carries them out.
"""

from __future__ import annotations

from .blocks import Block, Mark, Tier, Walk
from .diagnoses import provider_diagnosis
from .drift import Drift, Move, drift
from .misses import MISS_KINDS, Evidence, Miss, classify
from .savings import Served, savings
from .tallies import CacheSavings, MarkUse, Tally
from .walk import walk

__all__ = [
    "MISS_KINDS",
    "Block",
    "CacheSavings",
    "Drift",
    "Evidence",
    "Mark",
    "MarkUse",
    "Miss",
    "Move",
    "Served",
    "Tally",
    "Tier",
    "Walk",
    "classify",
    "drift",
    "provider_diagnosis",
    "savings",
    "walk",
]
