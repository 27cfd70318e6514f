"""Fill the provider's cache before the first call needs it, and keep it filled while that pays.

Source: Anthropic, "Prompt caching" (`max_tokens: 0`, and what it cannot stand beside); OpenAI
API reference, Responses (`prompt_cache_options.prewarm`). Dated November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ..catalog.costs import check_facts
from ..catalog.facts import ModelFacts
from .blocks import Mark, Walk
from .marks import legal, marked
from .terms import terms_of
from .walk import walk

__all__ = ["KeepAlive", "keep_alive", "prewarm"]

_PLACEHOLDER = {"role": "user", "content": "."}
_INSTEAD = {
    "anthropic.messages": "give it tools or a system prompt of one block or more",
    "openai.responses": "begin its input with a developer message: instructions cannot be marked",
}
_MARGIN = 0.8  # of a time to live, after which it is renewed


def prewarm(
    payload: Mapping[str, Any], *, endpoint: str = "anthropic.messages", ttl: str | None = None
) -> dict[str, Any]:
    """The request that writes what `payload` shares with other calls, and answers nothing.

    Send it with the same client, ahead of the first call: tools and system prompt, or the
    developer's messages, are then read by every call that begins with them. It is charged as
    their writing; no output is.

    Args:
        payload: A request as it will be sent; its conversation is left out.
        endpoint: `anthropic.messages` or `openai.responses`; Chat has no such request.
        ttl: How long it is kept, such as `1h`; `None` for the provider's shortest.

    Raises:
        ValueError: There is nothing before the conversation that can be marked, or the
            endpoint has no such request.
    """
    if endpoint not in _INSTEAD:
        raise ValueError(
            f"{endpoint} has no request that only fills the cache; send it as openai.responses, "
            "or make a short call"
        )
    is_anthropic = endpoint == "anthropic.messages"
    bare = _messages(payload) if is_anthropic else _responses(payload)
    prompt = walk(bare, endpoint=endpoint)
    last = None if prompt is None else _last_shared(prompt)
    if prompt is None or last is None:
        raise ValueError(f"nothing of this request can be kept for others: {_INSTEAD[endpoint]}")
    if prompt.blocks[last].mark is not None:
        return bare
    marks = legal(prompt, [Mark(last, ttl or prompt.default_ttl)], explicit_only=not is_anthropic)
    if not marks:
        raise ValueError(
            f"a mark of {ttl or prompt.default_ttl} cannot stand beside those that the request "
            "has; leave ttl out, or take them off"
        )
    return dict(marked(bare, prompt, marks, explicit_only=not is_anthropic))


def _last_shared(prompt: Walk) -> int | None:
    shared = [i for i, block in enumerate(prompt.blocks) if block.tier != "messages"]
    return next((i for i in reversed(shared) if prompt.blocks[i].is_markable), None)


def _messages(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is a 400 beside `max_tokens: 0`; none of it is a part of tools or system."""
    bare = dict(payload)
    for name in ("stream", "output_format", "cache_control"):  # the last would mark the end
        bare.pop(name, None)
    for name, is_refused in (
        ("thinking", lambda value: value.get("type") == "enabled"),
        ("tool_choice", lambda value: value.get("type") in ("tool", "any")),
        ("output_config", lambda value: value.get("format") is not None),
    ):
        value = bare.get(name)
        if isinstance(value, Mapping) and is_refused(value):
            bare.pop(name)
    return {**bare, "max_tokens": 0, "messages": [dict(_PLACEHOLDER)]}


def _responses(payload: Mapping[str, Any]) -> dict[str, Any]:
    """With the developer's messages alone; settings stay: they are a part of the prefix."""
    bare = {name: value for name, value in payload.items() if name != "stream"}
    given, told = payload.get("input"), []
    for item in given if isinstance(given, list | tuple) else ():
        if not isinstance(item, Mapping) or item.get("role") not in ("system", "developer"):
            break
        told.append(item)
    options = payload.get("prompt_cache_options")
    known = dict(options) if isinstance(options, Mapping) else {}
    known = {**known, "prewarm": True}
    return {**bare, "input": [*told, dict(_PLACEHOLDER)], "prompt_cache_options": known}


class KeepAlive(Struct, frozen=True, kw_only=True):
    """How to keep a prefix in the cache between calls that are further apart.

    Attributes:
        every: Seconds between two requests of `prewarm`; each reads the prefix.
        pings: How many of them cost less than writing the prefix anew.
        seconds: How long that is: if the next call comes later, let it expire.
    """

    every: float
    pings: int
    seconds: float


def keep_alive(
    facts: ModelFacts | None, *, endpoint: str = "anthropic.messages", ttl: str | None = None
) -> KeepAlive | None:
    """How long it pays to keep a prefix alive by reading it; `None` where prices are unknown.

    Each ping costs a read; letting it expire costs a write more than a read, once.

    Args:
        facts: The model's, as from `smartclient.catalog.model`.
        ttl: With which it was written; `None` for the shortest.

    Raises:
        TypeError: `facts` is something else.
        ValueError: The model has no such `ttl`.
    """
    if facts is not None:
        check_facts(facts)
    terms = terms_of(facts, endpoint=endpoint)
    if terms is None or not terms.writes or not terms.read:
        return None
    ttl = next(iter(terms.writes)) if ttl is None else ttl
    if ttl not in terms.writes:
        known = ", ".join(terms.writes)
        raise ValueError(f"ttl must be one that the model has ({known}), not {ttl!r}")
    every = _MARGIN * terms.seconds[ttl]
    pings = int((terms.writes[ttl] - terms.read) / terms.read + 1e-9)
    return KeepAlive(every=every, pings=pings, seconds=every * (pings + 1))
