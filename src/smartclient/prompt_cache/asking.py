"""Ask the provider itself why a prompt was not read from its cache.

Source: Anthropic, "Cache diagnostics" (`diagnostics.previous_message_id`); OpenAI API reference,
Responses (`prompt_cache_options.comparison_response_id`). Dated November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wire.value import decode
from .blocks import Walk
from .diagnoses import provider_diagnosis
from .terms import Terms

__all__ = ["answer", "asking"]


def asking(
    payload: Mapping[str, Any], walk: Walk, terms: Terms, reply_id: str | None
) -> Mapping[str, Any]:
    """`payload` with the question, where its API has one and its caller has not asked.

    Args:
        reply_id: Of the reply to the request that this one goes on from. Without one Anthropic
            is asked all the same: it keeps only what asks.
    """
    if walk.endpoint == "anthropic.messages":
        if "diagnostics" in payload:
            return payload
        return {**payload, "diagnostics": {"previous_message_id": reply_id}}
    options = payload.get("prompt_cache_options")
    known = dict(options) if isinstance(options, Mapping) else {}
    has_question = walk.endpoint == "openai.responses" and terms.style == "breakpoints"
    if not has_question or reply_id is None or "comparison_response_id" in known:
        return payload
    known["comparison_response_id"] = reply_id
    return {**payload, "prompt_cache_options": known}


def answer(source: str | bytes | None) -> Mapping[str, Any] | None:
    """What the provider says, under the name of its field; `None` where it says nothing.

    Args:
        source: A reply, or an event of a stream that holds one, as JSON.
    """
    return None if source is None else provider_diagnosis(decode(source))
