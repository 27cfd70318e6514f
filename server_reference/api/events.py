"""What happens to one request, in order: the single source of every wire format.

`Started`, then for each of its answers any number of `TextDelta` and tool calls, and a
`Finished`; those of several answers are mixed, and `index` tells them apart. A tool call is
`ToolCallStarted`, any number of `ArgumentsDelta` and `ToolCallFinished`, with nothing else of
its answer in between; one that is cut off has no `ToolCallFinished`. `Failed` may come at any
point and is the last event; before `Started` it is a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .errors import ApiError

__all__ = [
    "ArgumentsDelta",
    "EndReason",
    "Event",
    "Failed",
    "Finished",
    "Logprob",
    "Started",
    "TextDelta",
    "ToolCallFinished",
    "ToolCallStarted",
    "ToolEvent",
]

EndReason = Literal["stop", "stop_sequence", "length", "context", "tool_calls"]
"""`length`: the caller's `max_tokens`. `context`: the model's, which is shorter.
`tool_calls`: the model ended its turn, with at least one call in it."""


@dataclass(frozen=True, slots=True)
class Logprob:
    """A token with its natural log-probability.

    Args:
        bytes: What it stands for, which need not be whole characters.
        top: The likeliest tokens in its place.
    """

    token_id: int
    bytes: bytes
    logprob: float
    top: tuple[Logprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """The first token is there, or with `max_tokens=0` the prompt is computed.

    Args:
        input_tokens: Of the whole prompt.
        cache_read: Those of them that were read from the prefix cache.
        logprobs: Of the prompt's tokens but the first, where they were asked for.
    """

    input_tokens: int
    cache_read: int
    logprobs: tuple[Logprob, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text, empty only where it brings log-probabilities.

    Args:
        logprobs: Of the output's tokens since those that were told before, where they were
            asked for.
        num_of_calls: The first so many of these are of calls before the text.
    """

    text: str
    index: int = 0
    logprobs: tuple[Logprob, ...] = ()
    num_of_calls: int = 0


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model calls a tool.

    Args:
        id: Of letters and digits, and unique; each API puts its own prefix before it.
    """

    id: str
    name: str
    index: int = 0


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of the call's arguments, a JSON object; never empty."""

    text: str
    index: int = 0


@dataclass(frozen=True, slots=True)
class ToolCallFinished:
    """The call's arguments are complete."""

    index: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """One output is complete.

    Args:
        output_tokens: Of the whole output.
        stop_sequence: The caller's stop string that came, which is no part of the text.
    """

    reason: EndReason
    output_tokens: int
    stop_sequence: str | None = None
    index: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The request ended without a complete output."""

    error: ApiError


ToolEvent: TypeAlias = ToolCallStarted | ArgumentsDelta | ToolCallFinished
Event: TypeAlias = Started | TextDelta | ToolEvent | Finished | Failed
