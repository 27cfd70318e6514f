"""What every call used and cost: kept in memory, appended to a file, added up exactly."""

from __future__ import annotations

from .book import Ledger
from .entry import Entry
from .sums import Total

__all__ = ["Entry", "Ledger", "Total"]
