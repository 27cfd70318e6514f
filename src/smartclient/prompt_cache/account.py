"""Why a call read less than it could, in the words of its report."""

from __future__ import annotations

from msgspec import Struct

from ..catalog.facts import ModelFacts
from ..wire import Usage
from .lanes import Ticket
from .placing import Plan
from .terms import Terms

__all__ = ["Explained", "explained"]


class Explained(Struct, frozen=True, kw_only=True):
    """See the fields of the same names in `CacheReport`."""

    miss: str | None = None
    drift_path: str | None = None
    drift: str | None = None
    savings: float | None = None


def explained(
    ticket: Ticket, plan: Plan, terms: Terms, facts: ModelFacts | None, usage: Usage | None
) -> Explained | None:
    """What a reply's counts say about the cache; `None` as long as there are none."""
    return None
