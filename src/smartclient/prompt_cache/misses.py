"""Why a prompt was not read from the provider's cache: one class for each call, with facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from ..wire import Usage
from .blocks import Walk, path_text
from .diagnoses import contradiction, diagnosis_reason
from .drift import Drift, drift
from .explained import explained

__all__ = ["MISS_KINDS", "Evidence", "Miss", "MissKind", "classify"]

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
MISS_KINDS: tuple[MissKind, ...] = get_args(MissKind)

_ENOUGH = 0.9  # of what was expected: expectations are estimates, and reads go in steps

_Facts: TypeAlias = Mapping[str, str | int | float]


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
        overlaps: Calls in flight with the same prefix when this one was sent, where no reply
            had begun yet that could have written the entry.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers; dollars as a decimal string."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def __str__(self) -> str:
        told = explained(self.kind, self.facts, self.drift)
        return told if self.contradiction is None else f"{told} ({self.contradiction})"


def classify(evidence: Evidence) -> Miss | None:
    """Why less was read than the cache should have held; `None` where nothing was missed.

    Also `None` where the reply does not tell what was read: nothing is known to be missing.
    """
    read = _read(evidence.usage)
    expected = max(evidence.predicted_read or 0, evidence.cached_before or 0)
    if evidence.usage is not None and evidence.usage.input_tokens is not None:
        expected = min(expected, evidence.usage.input_tokens)  # no prompt reads more than itself
    if read is None or (read and read >= _ENOUGH * expected):
        return None
    missed = max(0, expected - read) if expected else None
    evidence = msgspec.structs.replace(evidence, drift=_drift(evidence))
    kind, facts = _first_that_holds(evidence)
    found = evidence.drift if kind in _BY_DRIFT else None
    return Miss(
        kind=kind,
        facts=facts,
        missed=missed,
        drift=found,
        provider=evidence.diagnosis,
        contradiction=contradiction(evidence.diagnosis, kind, found),
    )


def _read(usage: Usage | None) -> int | None:
    """Tokens that were read; `None` where the reply does not tell."""
    if usage is None or usage.input_tokens is None:
        return None
    return usage.cache_read


def _drift(evidence: Evidence) -> Drift | None:
    """The first difference, if it stands inside what the cache held."""
    before, found, entry = evidence.before, evidence.drift, evidence.entry
    if evidence.cached_before == 0 or before is None:
        return None
    if found is None:
        found = drift(before, evidence.after, entry=entry, usage=evidence.usage)
    return None if found is None or (entry is not None and found.block > entry) else found


def _first_that_holds(evidence: Evidence) -> tuple[MissKind, _Facts]:
    for kind, rule in _RULES:
        facts = rule(evidence)
        if facts is not None:
            return kind, facts
    return "unknown", _not_known(evidence)


def _no_mark(evidence: Evidence) -> _Facts | None:
    if evidence.is_automatic or evidence.marks is None or _is_too_short(evidence):
        return None
    return None if evidence.marks else {"marks": 0}


def _no_mark_behind(evidence: Evidence) -> _Facts | None:
    """A mark finds what is before it, never what is behind."""
    if evidence.is_automatic or not evidence.marks or evidence.entry is None:
        return None
    if max(evidence.marks) >= evidence.entry or evidence.entry >= len(evidence.after.blocks):
        return None
    where = path_text(evidence.after.blocks[evidence.entry].path)
    return {"marks": len(evidence.marks), "entry": where}


def _below_min(evidence: Evidence) -> _Facts | None:
    """Nothing was read, and nothing was written where something was asked to be."""
    usage = evidence.usage
    if usage is None or usage.cache_read or sum((usage.cache_write or {}).values()):
        return None
    was_kept = evidence.cached_before or 0
    if was_kept and was_kept <= (evidence.prefix_tokens or 0):
        return None  # long enough it was
    facts = {"tokens": evidence.prefix_tokens, "min_tokens": evidence.min_tokens}
    told = {name: tokens for name, tokens in facts.items() if tokens is not None}
    if evidence.is_automatic or not evidence.marks:
        return {**told, "tokens": usage.input_tokens or 0} if _is_too_short(evidence) else None
    # A prefix that is kept is read or written; that neither was says it was too short,
    # whatever the estimate says.
    return told if usage.cache_write is not None else None


def _is_too_short(evidence: Evidence) -> bool:
    """Whether the whole prompt is shorter than what is kept: no mark would change that."""
    tokens = None if evidence.usage is None else evidence.usage.input_tokens
    least = evidence.min_tokens
    return tokens is not None and least is not None and tokens < least


def _parameter(evidence: Evidence) -> str | None:
    return evidence.drift.parameter if evidence.drift is not None else None


def _model_changed(evidence: Evidence) -> _Facts | None:
    if evidence.before is None or _parameter(evidence) != "model":
        return None
    return {"before": evidence.before.model, "after": evidence.after.model}


def _key_changed(evidence: Evidence) -> _Facts | None:
    old, new = evidence.scope_before, evidence.scope
    if old is not None and new is not None:
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if changed:
            return {"name": ", ".join(changed)}
    # A key inside the request: it names a cache, and is no part of the prompt.
    return {"name": "prompt_cache_key"} if _parameter(evidence) == "prompt_cache_key" else None


def _compacted(evidence: Evidence) -> _Facts | None:
    by_provider = diagnosis_reason(evidence.diagnosis) == "context_compacted"
    return {} if evidence.is_compacted or by_provider else None


def _tier_param_changed(evidence: Evidence) -> _Facts | None:
    found = evidence.drift
    if found is None or found.parameter is None:
        return None
    return {"name": ", ".join(found.parameters), "tier": found.tier}


def _prefix_drift(evidence: Evidence) -> _Facts | None:
    found = evidence.drift
    return None if found is None else {"path": found.path, "difference": found.kind}


def _concurrent_race(evidence: Evidence) -> _Facts | None:
    return {"overlaps": evidence.overlaps} if evidence.overlaps > 0 else None


def _cold_first(evidence: Evidence) -> _Facts | None:
    """Nobody wrote it before."""
    is_first = evidence.before is None or evidence.cached_before == 0
    return {} if is_first and not evidence.predicted_read else None


def _ttl_expired(evidence: Evidence) -> _Facts | None:
    if evidence.gap is None or evidence.ttl is None or evidence.gap < evidence.ttl:
        return None
    return {"gap": evidence.gap, "ttl": evidence.ttl}


def _lookback_overflow(evidence: Evidence) -> _Facts | None:
    """The entry is further from the next mark than the provider looks."""
    if evidence.lookback is None or evidence.entry is None or not evidence.marks:
        return None
    blocks = evidence.after.blocks
    behind = [mark for mark in evidence.marks if evidence.entry <= mark < len(blocks)]
    if not behind:
        return None
    distance = blocks[min(behind)].position - blocks[evidence.entry].position + 1
    if distance <= evidence.lookback:
        return None
    return {"positions": distance, "lookback": evidence.lookback}


def _provider_evicted(evidence: Evidence) -> _Facts | None:
    """All that the client can see says that the entry should have been read."""
    return None if _not_known(evidence) else {}


def _not_known(evidence: Evidence) -> dict[str, str | int | float]:
    """What would have to be known to rule the client's own part out."""
    needed = {
        "the request before": evidence.before,
        "the entry": evidence.entry,
        "the gap": evidence.gap,
        "the time to live": evidence.ttl,
        "the marks": True if evidence.is_automatic else evidence.marks,
    }
    missing = [name for name, value in needed.items() if value is None]
    return {"missing": ", ".join(missing)} if missing else {}


_RULES: tuple[tuple[MissKind, Callable[[Evidence], _Facts | None]], ...] = (
    ("no_mark", _no_mark),
    ("below_min", _below_min),
    ("model_changed", _model_changed),
    ("key_changed", _key_changed),
    ("compacted", _compacted),
    ("tier_param_changed", _tier_param_changed),
    ("prefix_drift", _prefix_drift),
    ("no_mark", _no_mark_behind),
    ("concurrent_race", _concurrent_race),
    ("cold_first", _cold_first),
    ("ttl_expired", _ttl_expired),
    ("lookback_overflow", _lookback_overflow),
    ("provider_evicted", _provider_evicted),
)
_BY_DRIFT = ("prefix_drift", "tier_param_changed", "model_changed")
