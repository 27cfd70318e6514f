"""What a model's prompt cache costs, keeps and asks for, as placement reckons with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from ..catalog.facts import ModelFacts

__all__ = ["LOOKBACK", "STEP", "CacheStyle", "Terms", "expected_reads", "terms_of"]

CacheStyle: TypeAlias = Literal["marks", "breakpoints", "automatic"]
"""`marks`: Anthropic's. `breakpoints`: OpenAI's from gpt-5.6 on. `automatic`: those before."""

LOOKBACK = 20
"""Positions that a mark of Anthropic's looks back over; its own is the first."""

STEP = 128
"""Tokens in which OpenAI's automatic cache is read."""

_UNKNOWN_LEAST = 512  # the lowest that is known; a mark below the minimum costs nothing
_MOST_READS = 20.0
_ONLY_RESPONSES = frozenset({"12h"})  # the Chat API refuses it


class Terms(Struct, frozen=True, kw_only=True):
    """The rules and prices of one model's cache.

    Attributes:
        read: Price of a token that is read, as a share of one that is computed.
        writes: Price of one that is written, by time to live, the shortest first.
        seconds: How long a prefix is kept, by time to live.
        least: Tokens of the shortest prefix that is kept.
    """

    style: CacheStyle
    read: float
    writes: Mapping[str, float] = {}
    seconds: Mapping[str, float] = {}
    least: int = _UNKNOWN_LEAST

    @property
    def longest(self) -> float:
        """Seconds of the longest time to live."""
        return max(self.seconds.values(), default=0.0)


def terms_of(facts: ModelFacts | None, *, endpoint: str) -> Terms | None:
    """The terms of a model under one wire format; `None` where its prices are not known.

    What is not known is not guessed: a mark might cost more than it saves, or be refused.
    """
    prices = facts.prices if facts is not None else None
    if facts is None or prices is None or not prices.input or prices.cache_read is None:
        return None
    ttls = facts.cache_ttls or {}
    read = float(prices.cache_read / prices.input)
    if read >= 1.0:
        return None  # nothing to gain
    least = facts.min_cache_tokens or _UNKNOWN_LEAST
    writes = {
        ttl: float(price / prices.input)
        for ttl, price in sorted(prices.cache_write.items(), key=lambda one: ttls.get(one[0], 0))
        if ttl in ttls and not (endpoint == "openai.chat" and ttl in _ONLY_RESPONSES)
    }
    # Another provider's model behind the format: what marks it takes is its own affair, and
    # gateways that translate marks into those of its format are not known to do so.
    if facts.provider != endpoint.partition(".")[0]:
        return None
    style: CacheStyle = "breakpoints" if writes else "automatic"
    if endpoint == "anthropic.messages":
        style = "marks"
        if not writes:
            return None
    seconds = {ttl: float(kept) for ttl, kept in ttls.items() if ttl in writes or not writes}
    return Terms(style=style, read=read, writes=writes, seconds=seconds, least=least)


def expected_reads(chance: float) -> float:
    """How often a prefix is read until once it is not in time, each read coming by `chance`.

    Each read renews it for nothing, so one write serves a whole run of reads.
    """
    return min(_MOST_READS, chance / (1.0 - chance)) if chance < 1.0 else _MOST_READS
