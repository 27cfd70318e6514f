"""What happens to one request, in order: the single source of every wire format.

`Started`, then any number of `TextDelta`, then `Finished`. `Failed` may come at any point
and is the last event; before `Started` it is a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import ApiError

__all__ = ["EndReason", "Event", "Failed", "Finished", "Started", "TextDelta"]

EndReason = Literal["stop", "stop_sequence", "length", "context"]
"""`length`: the caller's `max_tokens`. `context`: the model's, which is shorter."""


@dataclass(frozen=True, slots=True)
class Started:
    """The first token is there, or with `max_tokens=0` the prompt is computed.

    Args:
        input_tokens: Of the whole prompt.
        cache_read: Those of them that were read from the prefix cache.
    """

    input_tokens: int
    cache_read: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The output is complete.

    Args:
        output_tokens: Of the whole output.
        stop_sequence: The caller's stop string that came, which is no part of the text.
    """

    reason: EndReason
    output_tokens: int
    stop_sequence: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The request ended without a complete output."""

    error: ApiError


Event = Started | TextDelta | Finished | Failed
