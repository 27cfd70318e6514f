"""What a rule answers with, whatever the wire format: text, tool calls, thinking, errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from .given import (
    check_fields,
    check_kind,
    check_number,
    check_text,
    check_texts,
    check_whole,
    named,
)
from .nearest import unknown

if TYPE_CHECKING:
    from .hooks import Fault

__all__ = [
    "STOP_REASONS",
    "Answer",
    "ErrorAnswer",
    "Faulted",
    "Split",
    "StopReason",
    "ToolCall",
    "Usage",
]

StopReason = Literal["stop", "length", "stop_sequence", "tool_calls", "refusal", "pause", "context"]
STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "refusal": "refusal",
    "content_filter": "refusal",
    "pause": "pause",
    "pause_turn": "pause",
    "context": "context",
    "model_context_window_exceeded": "context",
}
"""Every word that `stop_reason` takes, with the one it means; each format says its own."""

Split: TypeAlias = Literal["event", "byte", "character", "crlf"] | int | Sequence[int] | None
_SPLITS = ("event", "byte", "character", "crlf")


@named
@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a call; the input is `uncached` + `cache_read` + `cache_write`.

    Attributes:
        cache_write: Tokens by time to live, such as `{"5m": 1200}`.
        output: With the reasoning in it.
        reply_fields: Further fields of the reply's object, such as `diagnostics`.
        usage_fields: Further fields of its usage.
    """

    uncached: int = 0
    cache_read: int = 0
    cache_write: Mapping[str, int] = field(default_factory=dict)
    output: int = 0
    reasoning: int = 0
    reply_fields: Mapping[str, Any] = field(default_factory=dict)
    usage_fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("uncached", "cache_read", "output", "reasoning"):
            check_whole(f"usage: {name}", getattr(self, name), 0)
        for name in ("cache_write", "reply_fields", "usage_fields"):
            check_kind(f"usage: {name}", getattr(self, name), Mapping)
        for ttl, count in self.cache_write.items():
            check_whole(f"usage: cache_write[{ttl!r}]", count, 0)

    @property
    def written(self) -> int:
        """Tokens written to the cache, whatever their time to live."""
        return sum(self.cache_write.values())

    @property
    def input(self) -> int:
        """All tokens of the input."""
        return self.uncached + self.cache_read + self.written

    @classmethod
    def of(cls, given: Usage | Mapping[str, Any]) -> Usage:
        """From the same names in a mapping.

        Raises:
            ValueError: A name is unknown.
        """
        if isinstance(given, Usage):
            return given
        check_kind("usage", given, cls, Mapping)
        known = [one.name for one in fields(cls)]
        for name in given:
            if name not in known:
                raise ValueError(f"usage: {unknown('field', name, known)}")
        return cls(**given)


@named
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asks for.

    Args:
        arguments: An object, or text that is sent as it is, be it JSON or not.
        id: `None` makes one up.
    """

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    def __post_init__(self) -> None:
        check_text("tool_calls: name", self.name)
        check_text("tool_calls: id", self.id, optional=True)
        check_kind("tool_calls: arguments", self.arguments, Mapping, str)
        if isinstance(self.arguments, str):
            check_text("tool_calls: arguments", self.arguments)
            return
        try:
            msgspec.json.encode(self.arguments)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"tool_calls: arguments are no JSON: {error}") from error


@named
@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer.

    Args:
        text: A list is sent piece by piece, one event each; a string word by word.
        tool_calls: `ToolCall`s, or mappings with their fields.
        thinking: Reasoning before the text, cut like `text`.
        usage: `Usage`, or a mapping with its fields; `None` is left to the prompt cache, if
            there is one, or estimated from the lengths.
        stop_reason: In the words of any format, see `STOP_REASONS`; `None` is `tool_calls`
            with tool calls and `stop` without. Under `max_tokens=0` it is always `length`.
        stop_sequence: The text that stopped it.
        ttft: Seconds before the first byte of the reply.
        itl: Seconds between two events with tokens; for a whole reply they add up.
        jitter: Share of each `itl` by which it varies, 0 to 1, from the server's seed.
        split: Where writes of the body end. `event`: one write per event. `byte`: each byte.
            `character`: inside every character that has several bytes. `crlf`: lines end in
            CRLF, and a write ends inside each. A number: that many bytes each. A list:
            offsets into the body. `None`: as few writes as its timing allows.
        gap: Seconds between two writes of a split body, so that the client sees two reads.
        headers: Further headers of the reply.
        error: An error in the stream after the content, in place of its proper end; a whole
            reply is that error from the start.
        fault: What to break of it.
    """

    text: str | Sequence[str] = ""
    tool_calls: Sequence[ToolCall] = ()
    thinking: str | Sequence[str] = ""
    usage: Usage | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    ttft: float = 0.0
    itl: float = 0.0
    jitter: float = 0.0
    split: Split = None
    gap: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    error: ErrorAnswer | None = None
    fault: Fault | None = None

    def __post_init__(self) -> None:
        check_texts("text", self.text)
        check_texts("thinking", self.thinking)
        check_fields("headers", self.headers)
        check_text("stop_sequence", self.stop_sequence, optional=True)
        if self.usage is not None:
            object.__setattr__(self, "usage", Usage.of(self.usage))
        check_kind("tool_calls", self.tool_calls, list, tuple)
        object.__setattr__(self, "tool_calls", tuple(map(_tool_call, self.tool_calls)))
        check_text("stop_reason", self.stop_reason, optional=True)
        if self.stop_reason is not None and self.stop_reason not in STOP_REASONS:
            raise ValueError(unknown("stop_reason", self.stop_reason, STOP_REASONS))
        for name in ("ttft", "itl", "gap"):
            check_number(name, getattr(self, name), 0, math.inf, " s")
        check_number("jitter", self.jitter, 0, 1)
        _check_split(self.split)
        if self.error is not None:
            check_kind("error", self.error, ErrorAnswer)
        _check_fault(self.fault)

    def __or__(self, fault: Fault) -> Faulted:
        return Faulted(self, fault)

    @property
    def stop(self) -> StopReason:
        """Why it ends, in one word for all formats."""
        if self.stop_reason is not None:
            return STOP_REASONS[self.stop_reason]
        if self.tool_calls:
            return "tool_calls"
        return "stop" if self.stop_sequence is None else "stop_sequence"

    @property
    def is_timed(self) -> bool:
        """Whether time passes between its events, or their writes are told apart."""
        return bool(self.itl) or self.split is not None


@named
@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error in the shape of the API that was called.

    Args:
        status: HTTP status, 200 to 599.
        type: The API's own word; `None` takes what the status means there.
        message: `None` takes a short one.
        code: OpenAI's finer code.
        param: The field that OpenAI names.
        headers: Further headers, such as `retry-after`.
        ttft: Seconds before the reply.
        body: Sent as it is in place of the API's shape.
        fault: What to break of it.
    """

    status: int = 500
    type: str | None = None
    message: str | None = None
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    ttft: float = 0.0
    body: bytes | None = None
    fault: Fault | None = None

    def __post_init__(self) -> None:
        check_whole("status", self.status, 200, 599)
        for name in ("type", "message", "code", "param"):
            check_text(name, getattr(self, name), optional=True)
        check_fields("headers", self.headers)
        check_number("ttft", self.ttft, 0, math.inf, " s")
        check_kind("body", self.body, bytes, type(None))
        _check_fault(self.fault)

    def __or__(self, fault: Fault) -> Faulted:
        return Faulted(self, fault)


@dataclass(frozen=True, slots=True)
class Faulted:
    """Something to play, and a fault that breaks it; made by `answer | fault`."""

    base: Answer | ErrorAnswer | Faulted
    fault: Fault

    def __post_init__(self) -> None:
        _check_fault(self.fault)

    def __or__(self, fault: Fault) -> Faulted:
        return Faulted(self, fault)


def _tool_call(given: ToolCall | Mapping[str, Any]) -> ToolCall:
    if isinstance(given, ToolCall):
        return given
    check_kind("tool_calls: each", given, ToolCall, Mapping)
    known = [one.name for one in fields(ToolCall)]
    for name in given:
        if name not in known:
            raise ValueError(f"tool_calls: {unknown('field', name, known)}")
    if "name" not in given:
        raise ValueError("tool_calls: each needs a name")
    return ToolCall(**given)


def _check_fault(fault: object) -> None:
    if fault is not None and (isinstance(fault, type) or not hasattr(fault, "apply")):
        raise TypeError(
            f"fault must be a fault, such as fault({fault!r}), not {type(fault).__name__}"
        )


def _check_split(split: Split) -> None:
    if isinstance(split, str):
        if split not in _SPLITS:
            raise ValueError(unknown("split", split, _SPLITS))
        return
    check_kind("split", split, str, int, list, tuple, type(None))
    if isinstance(split, int):
        check_whole("split", split, 1)
    elif split is not None:
        for at in split:
            check_whole("split: each offset", at, 1)
        if sorted(set(split)) != list(split):
            raise ValueError(f"split must be offsets that rise, not {list(split)}")
