"""The blocks of a prompt in the order in which its provider puts them together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from . import anthropic_walk, openai_walk
from .blocks import Tier, Walk

__all__ = ["ENDPOINTS", "check_endpoint", "fingerprints", "walk"]

_WALKS: Mapping[str, Callable[..., Walk | None]] = {
    "anthropic.messages": anthropic_walk.walk_messages,
    "openai.chat": openai_walk.walk_chat,
    "openai.responses": openai_walk.walk_responses,
}
ENDPOINTS = tuple(_WALKS)
# What encoding raises of values that cannot be sent.
_UNSENDABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


def walk(
    payload: Mapping[str, Any],
    *,
    endpoint: str,
    model: str | None = None,
    headers: Iterable[tuple[str, str]] | Mapping[str, str] | None = None,
    before: Walk | Iterable[Walk] | None = None,
) -> Walk | None:
    """Read a request's prompt as its provider's cache does.

    It keeps the bytes of the prompt, so that nothing which the caller changes later reaches it.

    Args:
        endpoint: The adapter's name, such as `anthropic.messages`.
        model: Where it stands in the URL, not in the payload.
        headers: The request's; some of them change the prompt.
        before: The walk of an earlier request that begins alike, or several, of which the one
            that goes furthest counts. The result is the same without, and takes longer.

    Returns:
        `None` where the payload has no shape that is known, or cannot be sent.

    Raises:
        ValueError: There is no such `endpoint`.
    """
    check_endpoint(endpoint)
    read = _WALKS[endpoint]
    body: Any = payload
    if not isinstance(body, Mapping):
        return None
    named = payload.get("model")
    name = named if isinstance(named, str) else model or ""
    earlier = (before,) if isinstance(before, Walk) else before or ()
    earlier = [one for one in earlier if one.endpoint == endpoint]
    fields = headers.items() if isinstance(headers, Mapping) else headers or ()
    try:
        return read(payload, name, fields, earlier)
    except _UNSENDABLE:
        return None


def check_endpoint(endpoint: object) -> None:
    """Raise for a format that does not exist: no payload is at fault, the program is.

    Raises:
        ValueError: It does not; the message names the nearest.
    """
    if endpoint in ENDPOINTS:
        return
    from difflib import get_close_matches

    near = [one for one in ENDPOINTS if isinstance(endpoint, str) and endpoint in one.split(".")]
    near += get_close_matches(str(endpoint), ENDPOINTS, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    known = ", ".join(ENDPOINTS)
    raise ValueError(f"endpoint must be one of {known}, not {endpoint!r:.40}{meant}")


def fingerprints(found: Walk) -> dict[Tier, bytes]:
    """By tier, a digest of all that breaks its prefixes beside the blocks: its own, and what
    comes before it."""
    hashed = hashlib.sha256(found.endpoint.encode())
    digests: dict[Tier, bytes] = {}
    tiers: tuple[Tier, ...] = ("tools", "system", "messages")
    for tier in tiers:
        for name, value in sorted(found.params.get(tier, {}).items()):
            hashed.update(b"%b %d:%b" % (name.encode(), len(value), value))
        hashed.update(b"\0")
        digests[tier] = hashed.digest()[:16]
    return digests
