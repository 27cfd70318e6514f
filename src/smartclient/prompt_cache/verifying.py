"""What a reply teaches: which prefixes the provider holds, and what it keeps at all."""

from __future__ import annotations

from ..wire import Usage
from .book import Book
from .placing import Plan
from .terms import Terms

__all__ = ["begun", "ended"]

_NEXT_TRY = 1.1  # times a length that was too short: before that, nothing is tried again
_MISSED = 0.5  # of what was expected: read less than that, and the prefix was not there


def begun(book: Book, keys: list[bytes], plan: Plan, terms: Terms, started: float) -> list[bytes]:
    """A reply has begun: what its request writes and reads can be read from now on.

    Args:
        keys: Of the request's prefixes.
        started: When the request was sent, in monotonic seconds: lifetimes count from there.

    Returns:
        The prefixes that were not held before.
    """
    new = []
    if plan.hit is not None and keys[plan.hit] in book.entries:
        held = book.entries[keys[plan.hit]]
        book.keep(keys[plan.hit], held.ttl, held.seconds, started)
    for mark in plan.kept:
        seconds = terms.seconds.get(mark.ttl)
        if seconds is None:
            continue
        key = keys[mark.block]
        held_before = book.entries.get(key)
        if held_before is None or started >= held_before.ends_at:
            new.append(key)
        book.keep(key, mark.ttl, seconds, started)
    return new


def ended(
    book: Book,
    keys: list[bytes],
    weights: list[int],
    plan: Plan,
    terms: Terms,
    usage: Usage | None,
    *,
    new: list[bytes],
    is_failed: bool,
    now: float,
) -> None:
    """A reply has ended, and told what it read and wrote, or has not.

    Args:
        new: What `begun` returned.
        is_failed: It broke off or reported an error: without counts, nothing was written.
    """
    total = usage.input_tokens if usage is not None else None
    if usage is None or usage.cache_read is None or not total:
        if is_failed:
            _forget(book, new)
        return
    if weights[-1] > 0:
        book.calibrate(weights[-1], total)
    read, written = usage.cache_read, sum((usage.cache_write or {}).values())
    if plan.predicted_read:
        book.verified(min(1.0, read / plan.predicted_read), now)
    if read < _MISSED * plan.predicted_read:
        _forget_missed(book, keys, plan)
    if not plan.kept:
        return
    if read or written:
        _learn_length(book, keys, plan, read + written)
    elif usage.cache_write is not None:
        _forget(book, new)
        _learn_least(book, weights, plan, terms, total)


def _forget(book: Book, keys: list[bytes]) -> None:
    for key in keys:
        book.entries.pop(key, None)


def _forget_missed(book: Book, keys: list[bytes], plan: Plan) -> None:
    """What was not read is not there, but for what this very request wrote."""
    kept = {mark.block for mark in plan.kept}
    for index in range((plan.hit or 0) + 1):
        if index not in kept:
            book.entries.pop(keys[index], None)


def _learn_length(book: Book, keys: list[bytes], plan: Plan, tokens: int) -> None:
    """What was read and written goes up to the last mark: its length is known exactly."""
    entry = book.entries.get(keys[plan.kept[-1].block])
    if entry is not None:
        entry.tokens = tokens
    if book.learned_least > tokens:
        book.learned_least = tokens


def _learn_least(book: Book, weights: list[int], plan: Plan, terms: Terms, total: int) -> None:
    """Nothing was kept, though it was marked: the shortest prefix that is kept is longer."""
    tokens = int(total * weights[plan.kept[-1].block] / max(1, weights[-1]))
    if tokens >= terms.least:
        book.learned_least = max(book.learned_least, int(tokens * _NEXT_TRY))
