"""Summaries in the place of dropped messages: asked for once, found again on later turns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from .counting import Endpoint
from .tally import as_json, listed, plain

__all__ = ["Found", "SummaryError", "as_message", "look_up", "placed"]


class SummaryError(ValueError):
    """What a caller's function returned cannot stand in the conversation."""


class Found(Struct, frozen=True):
    """What is known of the summary of some cuts.

    Attributes:
        summary: Of all of them; `None` where it is not known.
        key: Under which the next one is kept; `None` where none is missing.
        missing: The messages that it stands for, the summary before it first.
    """

    summary: Any = None
    key: str | None = None
    missing: list[Any] = []


def look_up(
    sections: Sequence[Sequence[Any]],
    memory: Mapping[str, Any],
    is_good: Callable[[Any], bool],
) -> Found:
    """The summary of all `sections`, or what has to be summarised first.

    A cut summarises what it dropped and the summary before it, so no list is longer than a
    request was.

    Args:
        sections: The messages that each cut dropped.
        memory: Summaries by a digest of all that they stand for.
        is_good: Whether a summary from it can be used.
    """
    keys = _keys(sections)
    known, summary = len(keys), None
    while known:
        summary = memory.get(keys[known - 1])
        if summary is not None and is_good(summary):
            break
        known, summary = known - 1, None
    if known == len(keys):
        return Found(summary)
    before = [] if summary is None else [as_message(summary)]
    return Found(None, keys[known], [*before, *sections[known]])


def _keys(sections: Sequence[Sequence[Any]]) -> list[str]:
    keys: list[str] = []
    for section in sections:
        digest = hashlib.blake2b(keys[-1].encode() if keys else b"", digest_size=16)
        for message in section:
            digest.update(as_json(plain(message)).encode("utf-8", "surrogatepass") + b"\n")
        keys.append(digest.hexdigest())
    return keys


def as_message(summary: Any) -> Any:
    """A summary as a message of its own."""
    return {"role": "user", "content": summary} if isinstance(summary, str) else summary


def placed(
    kept: Sequence[Any], place: int, summary: Any, endpoint: Endpoint, *, is_turn: bool
) -> list[Any]:
    """`kept` with the summary before the message at `place`.

    A text joins a message of the user beside it, because some servers want the roles to take
    turns; a message stays one.

    Args:
        kept: The messages that stay.
        place: Of the first one behind those that are gone.
        summary: A text or a message.
        endpoint: The format.
        is_turn: Whether the message at `place` is one of the user.
    """
    found = list(kept)
    if isinstance(summary, str) and is_turn:
        found[place] = _joined(found[place], summary, endpoint, is_first=True)
    elif isinstance(summary, str) and place and _is_of_user(found[place - 1]):
        found[place - 1] = _joined(found[place - 1], summary, endpoint, is_first=False)
    else:
        found.insert(place, as_message(summary))
    return found


def _is_of_user(message: Any) -> bool:
    message = plain(message)
    return isinstance(message, Mapping) and message.get("role") == "user"


def _joined(message: Any, summary: str, endpoint: Endpoint, *, is_first: bool) -> dict[str, Any]:
    message = plain(message)
    message = message if isinstance(message, Mapping) else {"role": "user", "content": message}
    kind = "input_text" if endpoint == "openai.responses" else "text"
    content = message.get("content") or []
    own = [{"type": kind, "text": content}] if isinstance(content, str) else listed(content)
    added = [{"type": kind, "text": summary}]
    return {**message, "content": added + own if is_first else own + added}
