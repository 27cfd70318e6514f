"""What a provider itself says about a prompt that its cache did not hold, in either shape.

Source: anthropic-sdk-python, `types/diagnostics.py` and `types/cache_miss_reason.py`;
openai-python, `types/responses/response.py`, `PromptCacheDiagnostics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["diagnosis_reason", "provider_diagnosis"]

_FIELDS = ("diagnostics", "prompt_cache_diagnostics")
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
