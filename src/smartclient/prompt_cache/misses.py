"""Why a prompt was not read from the provider's cache: one class for each call, with facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ..wire import Usage
from .blocks import Walk
from .drift import Drift

__all__ = ["Evidence", "Miss", "MissKind", "classify"]

MissKind: TypeAlias = Literal[
    "no_mark",
    "below_min",
    "model_changed",
    "key_changed",
    "compacted",
    "tier_param_changed",
    "prefix_drift",
    "concurrent_race",
    "cold_first",
    "ttl_expired",
    "lookback_overflow",
    "provider_evicted",
    "unknown",
]
"""Every class, in the order in which they are tried; `docs/reference/cache-misses.md`."""


class Evidence(Struct, frozen=True, kw_only=True):
    """What is known of one call and of the cache entry that it should have read.

    Leave at its default what is not known: no class is claimed on what is not there.

    Attributes:
        after: The request's prompt.
        usage: Tokens of its reply.
        before: The prompt that wrote the entry, or last read it: as a rule the request
            before in the lane; `None` for the first.
        entry: Index into `before.blocks` of the last block that the entry holds.
        cached_before: Tokens of the entry: read and written by the call of `before`.
        predicted_read: Tokens that were expected to be read.
        marks: Indices into `after.blocks` of the marks that were sent, the caller's and
            ours, one for the whole request at its last block; `None` is unknown.
        is_automatic: The provider caches prompts without marks.
        prefix_tokens: Tokens up to the last mark, or of the whole prompt; an estimate.
        min_tokens: The shortest prefix that the model's cache keeps.
        gap: Seconds from the start of the call that last used the entry to that of this one.
        ttl: Seconds that the entry lives after a use.
        overlaps: Calls in flight with the same prefix, none of whose replies had begun when
            this one was sent.
        lookback: Positions back from a mark at which an entry is found, the mark's own
            included; `None` for no limit.
        scope_before: What besides the prompt an entry belongs to, by name, as it was then:
            fingerprints under `key`, `workspace`, `region`.
        scope: The same now.
        is_compacted: The history was compacted between the two, by us or by the provider.
        diagnosis: What `provider_diagnosis` found in the reply.
        drift: The first difference to `before`, where the caller has found it already.
    """

    after: Walk
    usage: Usage | None = None
    before: Walk | None = None
    entry: int | None = None
    cached_before: int | None = None
    predicted_read: int | None = None
    marks: tuple[int, ...] | None = None
    is_automatic: bool = False
    prefix_tokens: int | None = None
    min_tokens: int | None = None
    gap: float | None = None
    ttl: float | None = None
    overlaps: int = 0
    lookback: int | None = None
    scope_before: Mapping[str, str] | None = None
    scope: Mapping[str, str] | None = None
    is_compacted: bool = False
    diagnosis: Mapping[str, Any] | None = None
    drift: Drift | None = None


class Miss(Struct, frozen=True, kw_only=True):
    """Why less was read from the cache than could have been.

    `str(miss)` is a sentence without text of the prompt.

    Attributes:
        kind: The class.
        facts: What it was recognised by, such as `gap` and `ttl` in seconds.
        missed: Tokens that were expected to be read and were not; `None` is unknown.
        drift: The first difference, where that is the reason.
        provider: What the provider itself says, as it said it.
        contradiction: What it says against `kind`, in a sentence; `None` for nothing.
    """

    kind: MissKind
    facts: Mapping[str, str | int | float] = {}
    missed: int | None = None
    drift: Drift | None = None
    provider: Mapping[str, Any] | None = None
    contradiction: str | None = None


def classify(evidence: Evidence) -> Miss | None:
    """Why less was read than the cache should have held; `None` where nothing was missed.

    Also `None` where the reply does not tell what was read: nothing is known to be missing.
    """
    raise NotImplementedError
