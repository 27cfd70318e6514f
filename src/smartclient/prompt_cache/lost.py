"""What a difference costs: the tokens that a cache could have given, and their price."""

from __future__ import annotations

from decimal import Decimal

import msgspec
from msgspec import Struct

from ..catalog.exact import minus
from ..catalog.facts import ModelFacts
from ..wire import Served, Usage
from .divergence import Divergence
from .savings import priced

__all__ = ["Lost", "lost"]


class Lost(Struct, frozen=True, kw_only=True):
    """What was not read.

    Attributes:
        tokens: `None` is unknown.
        is_estimate: By a general ratio, not by this call's usage.
        is_written: Written to the cache anew.
        dollars: What that costs over reading them; `None` is unknown.
    """

    bytes: int
    tokens: int | None
    is_estimate: bool
    is_written: bool
    dollars: Decimal | None


def lost(
    found: Divergence,
    num_bytes: int,
    *,
    usage: Usage | None,
    tokens_per_byte: float,
    ttl: str | None,
    facts: ModelFacts | None,
    served: Served,
) -> Lost:
    """What the later of two prompts lost to their difference.

    Args:
        num_bytes: Of the later prompt.
        usage: What it used, where that is known.
        tokens_per_byte: Where it is not.
        ttl: With which it is then written; `None` for not at all.
    """
    gone = max(0, found.end_bytes - found.shared_bytes)
    total = usage.input_tokens if usage is not None else None
    is_known = usage is not None and total is not None and num_bytes > 0
    if usage is None or total is None or num_bytes <= 0:
        tokens = round(gone * tokens_per_byte)
        rest = max(0, round(num_bytes * tokens_per_byte) - tokens)
        written = {} if ttl is None else {ttl: tokens}
        actual = Usage(
            uncached=rest + (tokens if ttl is None else 0), cache_write=written, output=0
        )
    else:
        tokens = min(round(gone * total / num_bytes), total - (usage.cache_read or 0))
        actual = msgspec.structs.replace(usage, output=usage.output or 0)
    tokens = max(0, tokens)
    ideal, is_written = _read_instead(actual, tokens)
    return Lost(
        bytes=gone,
        tokens=tokens,
        is_estimate=not is_known,
        is_written=is_written,
        dollars=_between(actual, ideal, facts, served),
    )


def _read_instead(usage: Usage, tokens: int) -> tuple[Usage, bool]:
    """The same reply, had so many tokens been read; and whether they were written.

    What is lost stands before what is new, so it is what was written, the longest time to
    live first: marks of a longer one must come first. Only then what was not kept.
    """
    left = tokens
    written = {}
    for ttl, count in sorted((usage.cache_write or {}).items(), key=lambda one: -_length(one[0])):
        taken = min(left, count)
        left -= taken
        written[ttl] = count - taken
    is_written = left < tokens
    taken = min(left, usage.uncached or 0)
    read = (usage.cache_read or 0) + tokens - left + taken
    ideal = Usage(
        uncached=(usage.uncached or 0) - taken,
        cache_read=read,
        cache_write=written,
        output=usage.output,
        reasoning=usage.reasoning,
    )
    return ideal, is_written


def _length(ttl: str) -> float:
    """Seconds of `5m`; 0 for what cannot be read."""
    number, unit = ttl[:-1], ttl[-1:]
    factor = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(unit, 0)
    return int(number) * factor if number.isdecimal() else 0


def _between(
    actual: Usage, ideal: Usage, facts: ModelFacts | None, served: Served
) -> Decimal | None:
    paid, due = priced(actual, facts, served), priced(ideal, facts, served)
    if paid is None or due is None or paid.total is None or due.total is None:
        return None
    return minus(paid.total, due.total)
