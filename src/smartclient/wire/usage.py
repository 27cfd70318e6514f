"""Tokens of a reply in one normal form, and how the reply says that it was served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .value import decode

__all__ = [
    "MOST_TOKENS",
    "Served",
    "Usage",
    "asked_of",
    "by_ttl",
    "changes_input",
    "has_fees",
    "normal",
    "served_as",
    "uncached_of",
]

MOST_TOKENS = 10**15
"""No count is larger: what is added up and priced stays within what Python and readers hold."""


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one reply, in one normal form whatever the provider's vocabulary.

    `uncached + cache_read + sum(cache_write.values()) == input_tokens`, and none is below 0.
    Every field is `None` until the provider has told it; 0 is a count.

    Attributes:
        uncached: Input tokens computed and not kept.
        cache_read: Input tokens read from the provider's prompt cache.
        cache_write: Input tokens written to it, by time to live, such as `5m`.
        output: Output tokens, reasoning included.
        reasoning: The part of `output` spent on reasoning.
        is_final: `False` for an answer that was cut before its last counts: these are the
            least that it used.
        inconsistent: Why the provider's numbers cannot be, in a sentence; nothing is mended.
        raw: They as they were told, where they are inconsistent.
    """

    uncached: int | None = None
    cache_read: int | None = None
    cache_write: Mapping[str, int] | None = None
    output: int | None = None
    reasoning: int | None = None
    is_final: bool = True
    inconsistent: str | None = None
    raw: Mapping[str, Any] | None = None

    @property
    def input_tokens(self) -> int | None:
        """All input tokens, cached or not; `None` when none of them was told."""
        if self.uncached is None:
            return None
        return self.uncached + (self.cache_read or 0) + sum((self.cache_write or {}).values())

    def updated(self, newer: Usage) -> Usage:
        """This with what `newer` tells in its place: counts are cumulative, never added."""
        # What was wrong with the input stays so, until the input is told again.
        faulty = self if newer.inconsistent is None and newer.uncached is None else newer
        found = Usage(
            uncached=self.uncached if newer.uncached is None else newer.uncached,
            cache_read=self.cache_read if newer.cache_read is None else newer.cache_read,
            cache_write=self.cache_write if newer.cache_write is None else newer.cache_write,
            output=self.output if newer.output is None else newer.output,
            reasoning=self.reasoning if newer.reasoning is None else newer.reasoning,
            is_final=newer.is_final,
            inconsistent=faulty.inconsistent,
            raw=faulty.raw,
        )
        if found.inconsistent is not None or _is_possible(found):
            return found
        return replace(found, inconsistent=_impossible(found), raw=newer.raw or self.raw)

    def plus(self, other: Usage) -> Usage:
        """What both used; a part that one of them did not tell is unknown."""
        faulty = other if self.inconsistent is None else self
        return Usage(
            uncached=_sum(self.uncached, other.uncached),
            cache_read=_sum(self.cache_read, other.cache_read),
            cache_write=_sums(self.cache_write, other.cache_write),
            output=_sum(self.output, other.output),
            reasoning=_sum(self.reasoning, other.reasoning),
            is_final=self.is_final and other.is_final,
            inconsistent=faulty.inconsistent,
            raw=faulty.raw,
        )

    def at_least(self, output: int) -> Usage:
        """This as the least that was used, of an answer of which so many tokens were seen."""
        return replace(self, output=max(self.output or 0, output), is_final=False)


class Served(Struct, frozen=True, kw_only=True, gc=False):
    """How a call was served, which is what it is billed by. Unknown is `None`.

    Attributes:
        model: Whose answer it is, in the provider's words.
        service_tier: Such as `priority` or `flex`.
        speed: Such as `fast`.
        geo: Where, such as `us`.
    """

    model: str | None = None
    service_tier: str | None = None
    speed: str | None = None
    geo: str | None = None

    def over(self, asked: Served | None) -> Served:
        """This, and what was `asked` for where it says nothing."""
        if asked is None:
            return self
        return Served(
            model=self.model or asked.model,
            service_tier=self.service_tier or asked.service_tier,
            speed=self.speed or asked.speed,
            geo=self.geo or asked.geo,
        )


_GEO = "inference_geo"


def asked_of(payload: Mapping[str, Any] | None) -> Served | None:
    """How a request asks to be served; `None` where it leaves that to the provider."""
    if payload is None:
        return None
    tier, speed, geo = payload.get("service_tier"), payload.get("speed"), payload.get(_GEO)
    return None if tier is speed is geo is None else served_as(None, tier, speed, geo)


def served_as(model: Any, service_tier: Any, speed: Any = None, geo: Any = None) -> Served | None:
    """How a reply says that it was served; `None` where it says nothing."""
    if service_tier is speed is geo is None:  # most often
        return Served(model=model) if model and isinstance(model, str) else None
    return Served(
        model=model if isinstance(model, str) else None,
        service_tier=service_tier if isinstance(service_tier, str) else None,
        speed=speed if isinstance(speed, str) else None,
        geo=geo if isinstance(geo, str) else None,
    )


def normal(usage: Usage, source: str | bytes, contradiction: str | None = None) -> Usage:
    """`usage`, marked where it cannot be.

    Args:
        source: The JSON that it was told in.
        contradiction: What is known already to be wrong with it.
    """
    if contradiction is None and _is_possible(usage):
        return usage
    why = contradiction or _impossible(usage)
    return replace(usage, inconsistent=why, raw=_told(decode(source)))


def uncached_of(
    total: int | None, read: int | None, written: Mapping[str, int] | None
) -> tuple[int | None, str | None]:
    """Input tokens of a `total` that the cache has no part in, and what is contradictory."""
    if total is None:
        return None, None
    cached = (read or 0) + sum((written or {}).values())
    if cached <= total:
        return total - cached, None
    # The server means something else by these words, and nobody can tell what.
    return None, f"{_shown(total)} input tokens, of which {_shown(cached)} cached or written"


def by_ttl(total: int | None, split: Mapping[str, int]) -> tuple[dict[str, int], str | None]:
    """Tokens written to the cache by time to live, and what is contradictory about them.

    Args:
        total: All of them, where it is told; it is what counts.
        split: The same told apart; the first takes what nobody did.
    """
    apart = sum(split.values())
    if total is None or total == apart:
        return {ttl: tokens for ttl, tokens in split.items() if tokens}, None
    usual = {next(iter(split)): total} if total else {}
    if not apart:
        return usual, None
    written = f"{_shown(total)} tokens written to the cache"
    return usual, f"{written}, of which {_shown(apart)} told apart"


# What the model writes itself, and calls of tools that the caller runs.
_OURS = frozenset(
    (
        "text thinking message reasoning function_call custom_tool_call tool_use computer_call "
        "local_shell_call apply_patch_call"
    ).split()
)
_FREE = frozenset({"mcp_call", "web_fetch"})  # of the provider, and billed as tokens alone


def changes_input(kind: Any) -> bool:
    """Whether a part of a reply, of this type, comes of a tool at the provider or a compaction.

    The input tokens of such a reply are not those of its request.
    """
    if not isinstance(kind, str) or kind in _OURS:
        return False
    return kind.endswith(("_call", "_tool_result")) or kind in ("server_tool_use", "compaction")


def has_fees(kind: Any, name: Any = None) -> bool:
    """Whether such a part may cost more than the tokens that are told; `name` is the tool's."""
    if not changes_input(kind) or kind.endswith("_result"):  # the call before it has the fee
        return False
    return kind not in _FREE and name not in _FREE


def _is_possible(usage: Usage) -> bool:
    """Whether counts can be, whatever else they mean."""
    output, reasoning, written = usage.output or 0, usage.reasoning or 0, usage.cache_write
    uncached, read = usage.uncached or 0, usage.cache_read or 0
    if uncached < 0 or read < 0 or output < 0 or reasoning < 0:
        return False
    if uncached > MOST_TOKENS or read > MOST_TOKENS or output > MOST_TOKENS:
        return False
    if reasoning > (MOST_TOKENS if usage.output is None else output):
        return False
    return not written or all(0 <= tokens <= MOST_TOKENS for tokens in written.values())


def _impossible(usage: Usage) -> str:
    """Why counts cannot be."""
    counts = {
        "uncached input": usage.uncached,
        "input read from the cache": usage.cache_read,
        "output": usage.output,
        "reasoning": usage.reasoning,
    }
    for ttl, tokens in (usage.cache_write or {}).items():
        counts[f"input written to the cache for {ttl}"] = tokens
    for name, count in counts.items():
        if count is not None and not 0 <= count <= MOST_TOKENS:
            return f"{_shown(count)} tokens of {name}"
    return f"{usage.reasoning:,} tokens of reasoning in {usage.output:,} of output"


def _shown(count: int) -> str:
    return f"over {MOST_TOKENS:,}" if count > MOST_TOKENS else f"{count:,}"


def _told(fields: Any) -> Mapping[str, Any] | None:
    """The counts in what came, wherever the format puts them."""
    for holder in (fields, *(fields.get(name) for name in ("message", "response"))):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            return usage
    return None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _sums(one: Mapping[str, int] | None, other: Mapping[str, int] | None) -> dict[str, int] | None:
    if one is None or other is None:
        return None
    ttls = dict.fromkeys((*one, *other))
    return {ttl: one.get(ttl, 0) + other.get(ttl, 0) for ttl in ttls}
