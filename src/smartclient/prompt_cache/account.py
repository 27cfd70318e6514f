"""What became of the cache in one call, in the words of its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from .._call import Attempt
from ..catalog.facts import ModelFacts
from ..wire import Served, Usage
from .drift import Drift, drift
from .lanes import Ticket
from .misses import Evidence, classify
from .placing import Plan
from .savings import STANDARD, savings
from .terms import LOOKBACK, STEP, Terms

__all__ = ["Account", "account"]


class Account(Struct, frozen=True, kw_only=True):
    """See the fields of the same names in `CacheReport`."""

    miss: str | None = None
    why: str | None = None
    drift_path: str | None = None
    drift: str | None = None
    savings: float | None = None


def account(
    ticket: Ticket,
    plan: Plan,
    terms: Terms,
    facts: ModelFacts | None,
    attempt: Attempt,
    *,
    overlaps: int = 0,
    diagnosis: Mapping[str, Any] | None = None,
) -> Account:
    """What a reply's counts say; nothing as long as there are none.

    Args:
        overlaps: Calls that were writing the same prefix when this one was sent.
        diagnosis: What the provider says.
    """
    usage = attempt.usage
    if usage is None or usage.cache_read is None:
        return Account()
    served = attempt.billed_as or STANDARD
    saved = savings(usage, facts, served=served)
    miss = classify(_evidence(ticket, plan, terms, facts, usage, served, overlaps, diagnosis))
    found = miss.drift if miss is not None else None
    if miss is not None and ticket.is_astray:
        # Nothing was there to be missed, because nothing stays the same for long enough.
        found = found or _drift(ticket, facts, usage, served)
    why = "" if miss is None else str(miss if found is None else found)
    if miss is not None and miss.kind == "no_mark" and not plan.kept and found is None:
        why = f"not marked: {plan.why_none}"
    return Account(
        miss=None if miss is None else miss.kind,
        why=why or None,
        drift_path=None if found is None else found.path,
        drift=None if found is None else str(found),
        savings=None if saved is None else float(saved),
    )


def _drift(ticket: Ticket, facts: ModelFacts | None, usage: Usage, served: Served) -> Drift | None:
    """The first difference to the prompt that this one should go on from."""
    if ticket.before is None:
        return None
    return drift(
        ticket.before,
        ticket.walk,
        entry=ticket.entry,
        usage=usage,
        tokens_per_byte=ticket.book.ratio,
        facts=facts,
        served=served,
    )


def _expect_all(ticket: Ticket, terms: Terms) -> None:
    """Note what a provider that needs no marks should hold: all that was sent."""
    before = ticket.before
    if before is None:
        return
    entry, weight = ticket.shared, ticket.weights[ticket.shared] if ticket.shared >= 0 else 0
    if weight * ticket.book.ratio < terms.least and ticket.is_astray:
        entry = len(before.blocks) - 1
        weight = before.blocks[entry].end
    tokens = int(weight * ticket.book.ratio) // STEP * STEP
    if tokens >= terms.least:
        ticket.entry, ticket.cached = entry, tokens
        ticket.idle, ticket.lives = ticket.since, terms.longest


def _evidence(
    ticket: Ticket,
    plan: Plan,
    terms: Terms,
    facts: ModelFacts | None,
    usage: Usage,
    served: Served,
    overlaps: int,
    diagnosis: Mapping[str, Any] | None,
) -> Evidence:
    if terms.style == "automatic":
        _expect_all(ticket, terms)
    before, entry = ticket.before, ticket.entry
    found = None
    if before is not None and entry is not None and (usage.cache_read or 0) < (ticket.cached or 0):
        found = _drift(ticket, facts, usage, served)
    marks = tuple(mark.block for mark in plan.kept)
    end = marks[-1] if marks else -1
    return Evidence(
        after=ticket.walk,
        usage=usage,
        before=before,
        entry=entry,
        cached_before=ticket.cached or 0,  # where we know of none, there is none
        predicted_read=plan.predicted_read,
        marks=marks,
        is_automatic=terms.style == "automatic",
        prefix_tokens=int(ticket.weights[end] * ticket.book.ratio),
        min_tokens=ticket.book.learned_least or terms.least,
        gap=ticket.idle,
        ttl=ticket.lives,
        overlaps=overlaps,
        diagnosis=diagnosis,
        drift=found,
        lookback=LOOKBACK if terms.style == "marks" else None,
    )
