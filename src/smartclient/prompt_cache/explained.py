"""A miss in a sentence: what happened, with its numbers, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from .drift import Drift

__all__ = ["explained"]


def explained(kind: str, facts: Mapping[str, str | int | float], drift: Drift | None) -> str:
    """One sentence, without text of the prompt."""
    if drift is not None:
        return str(drift)
    return _SENTENCES[kind].format_map(_Shown(facts)) + _more(kind, facts)


class _Shown(dict[str, str]):
    """Facts as people read them; what is not known is said so."""

    def __init__(self, facts: Mapping[str, str | int | float]) -> None:
        super().__init__({name: _shown(name, value) for name, value in facts.items()})

    def __missing__(self, name: str) -> str:
        return "(unknown)"


_SENTENCES = {
    "no_mark": "no mark stands at or behind what could be kept; mark the end of what repeats",
    "below_min": "the prefix is too short to be kept",
    "model_changed": "the model changed; each has a cache of its own",
    "key_changed": "{name} changed, and with it the cache; keep to one for what shares a prefix",
    "compacted": "the history was compacted, so its prefix is new; compact seldom",
    "tier_param_changed": "{name} changed; send the same in every call",
    "prefix_drift": "the prompt differs at {path}; send the same in every call",
    "concurrent_race": (
        "{overlaps} calls with this prefix were sent before a reply to one had begun; "
        "send one first, and the others once its reply begins"
    ),
    "cold_first": "nobody sent this prefix before; the next call can read it",
    "ttl_expired": (
        "the prefix was last used {gap} ago and is kept for {ttl}; "
        "use a longer time to live, or call more often"
    ),
    "lookback_overflow": (
        "what is kept ends {positions} positions before the next mark, and a provider looks "
        "back over {lookback}; put a mark in between"
    ),
    "provider_evicted": (
        "the provider no longer had the prefix, although the same bytes were sent in time"
    ),
    "unknown": "why it was not read cannot be said",
}


def _more(kind: str, facts: Mapping[str, str | int | float]) -> str:
    if kind == "below_min" and "min_tokens" in facts:
        tokens = f"about {facts['tokens']:,}" if "tokens" in facts else "fewer"
        return f": {tokens} tokens, and the model keeps {facts['min_tokens']:,} or more"
    if kind == "unknown" and "missing" in facts:
        return f": not known are {facts['missing']}"
    return ""


def _shown(name: str, value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    if name not in ("gap", "ttl"):
        return f"{value:,}"
    if value < 120:
        return f"{value:,.0f} s"
    number, unit = (value / 60, "min") if value < 7200 else (value / 3600, "h")
    return f"{number:,.1f}".removesuffix(".0") + f" {unit}"
