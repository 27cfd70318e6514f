"""What a provider itself says about a prompt that its cache did not hold, in either shape.

Source: anthropic-sdk-python, `types/diagnostics.py` and `types/cache_miss_reason.py`;
openai-python, `types/responses/response.py`, `PromptCacheDiagnostics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .drift import Drift

__all__ = ["contradiction", "diagnosis_reason", "provider_diagnosis"]

_FIELDS = ("diagnostics", "prompt_cache_diagnostics")
_PARTS: Mapping[str, tuple[str, ...]] = {  # by reason, where it says that the prompts differ
    "tools_changed": ("tools",),
    "system_changed": ("system",),
    "messages_changed": ("messages",),
    "input_changed": ("system", "messages"),
}
_BY_CHANGE = frozenset(
    {"prefix_drift", "tier_param_changed", "model_changed", "key_changed", "compacted"}
)
_NO_COMPARISON = frozenset({"no_mark", "below_min"})  # true whatever else changed
_SAME = {"context_compacted": "compacted", "prompt_cache_key_changed": "key_changed"}
_INSIDE = ("message", "response")  # where an event holds the reply


def provider_diagnosis(reply: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The provider's own diagnosis, under the name of its field, as it came.

    `{"diagnostics": None}` is Anthropic's word for no difference, `None` of ours means that
    nothing was said.

    Args:
        reply: A reply of either provider, or an event of a stream that holds one.
    """
    if not isinstance(reply, Mapping):
        return None
    for place in (reply, *(reply.get(name) for name in _INSIDE)):
        if isinstance(place, Mapping):
            told = {name: place[name] for name in _FIELDS if name in place}
            if told:
                return told
    return None


def diagnosis_reason(diagnosis: Mapping[str, Any] | None) -> str | None:
    """The reason in the provider's word, such as `tools_changed` or `cache_hit`.

    `no_difference` stands for Anthropic's null; `None` where nothing is said, not yet, or
    where nothing could be compared.
    """
    for name in _FIELDS:
        if diagnosis is None or name not in diagnosis:
            continue
        told = diagnosis[name]
        if told is None:
            return "no_difference" if name == "diagnostics" else None
        if isinstance(told, Mapping):
            return _reason(told)
    return None


def _reason(told: Mapping[str, Any]) -> str | None:
    inner = told.get("cache_miss_reason", told)
    if not isinstance(inner, Mapping):
        return inner if isinstance(inner, str) else None
    reason = inner.get("reason") or inner.get("type")
    known = isinstance(reason, str) and not reason.endswith("_not_found")
    return reason if known and reason != "unavailable" else None


def contradiction(
    diagnosis: Mapping[str, Any] | None, kind: str, found: Drift | None
) -> str | None:
    """What the provider says against our class of a miss, in a sentence; `None` for nothing.

    Args:
        diagnosis: As from `provider_diagnosis`.
        kind: Our class.
        found: The difference that it rests on, if it does.
    """
    reason = diagnosis_reason(diagnosis)
    if reason is None or kind in _NO_COMPARISON:
        return None
    if reason in ("no_difference", "cache_hit"):
        if kind not in _BY_CHANGE:
            return None
        said = "nothing changed" if reason == "no_difference" else "the cache was hit"
        return f"the provider says that {said}; {_ours(kind, found)}"
    if _agrees(reason, kind, found):
        return None
    return f"the provider says {reason}; {_ours(kind, found)}"


def _agrees(reason: str, kind: str, found: Drift | None) -> bool:
    if reason in _SAME:
        return kind == _SAME[reason]
    if reason in _PARTS:
        if kind == "compacted":
            return reason in ("messages_changed", "input_changed")
        return found is not None and (
            found.tier in _PARTS[reason] or found.steps[:1] == _PARTS[reason][:1]
        )
    if found is None:
        return False
    # Anthropic counts `speed` to the model.
    names = ("model", "speed") if reason == "model_changed" else (reason.removesuffix("_changed"),)
    return any(name in found.parameters for name in names)


def _ours(kind: str, found: Drift | None) -> str:
    if found is not None:
        return f"the first difference in what was sent is {found.path}"
    return f"what was sent says {kind}"
