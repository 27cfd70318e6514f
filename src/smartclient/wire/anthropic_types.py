"""What the Messages format holds: messages, blocks, and the events of a stream.

Every field may be missing; a field that a class does not name is reachable all the same.
Source: Anthropic API reference, "Messages" and "Streaming messages".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from .value import Number, StreamValue, Text, Value

__all__ = [
    "CacheCreation",
    "ContentBlock",
    "EventDelta",
    "Message",
    "MessageStreamEvent",
    "MessageTokensCount",
    "OutputTokensDetails",
    "Usage",
]


class CacheCreation(StreamValue, frozen=True):
    """Input tokens written to the cache, by time to live."""

    ephemeral_5m_input_tokens: Number = None
    ephemeral_1h_input_tokens: Number = None


class OutputTokensDetails(StreamValue, frozen=True):
    """Parts of the output tokens."""

    thinking_tokens: Number = None


class Usage(StreamValue, frozen=True):
    """Token counts in this API's words: `input_tokens` leaves the cached ones out."""

    input_tokens: Number = None
    cache_read_input_tokens: Number = None
    cache_creation_input_tokens: Number = None
    cache_creation: CacheCreation | None = None
    output_tokens: Number = None
    output_tokens_details: OutputTokensDetails | None = None
    service_tier: Text = None
    speed: Text = None
    inference_geo: Text = None
    server_tool_use: Any = None
    iterations: Any = None


class ContentBlock(Value):
    """One block of a message, of whatever type."""

    type: str | None = None
    text: str | None = None
    citations: list[Any] | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None


class Message(Value):
    """A reply of the model."""

    _nested: ClassVar = {"content": ContentBlock, "usage": Usage}

    id: str | None = None
    type: str | None = None
    role: str | None = None
    model: str | None = None
    content: Sequence[ContentBlock] = ()
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Mapping[str, Any] | None = None
    usage: Usage = Usage()
    container: Mapping[str, Any] | None = None


class EventDelta(StreamValue, frozen=True):
    """What an event adds: to a block, or to the message."""

    type: Text = None
    text: Text = None
    thinking: Text = None
    partial_json: Text = None
    signature: Text = None
    citation: Any = None
    stop_reason: Text = None
    stop_sequence: Text = None


class MessageStreamEvent(StreamValue, frozen=True):
    """One event of a stream; `type` says which of its fields were sent.

    `delta` is never `None`, so that `event.delta.text` can be asked of every event.
    """

    type: Text = None
    index: Number = None
    delta: EventDelta = EventDelta()
    message: Message | None = None
    content_block: ContentBlock | None = None
    usage: Usage | None = None
    context_management: Any = None
    error: Any = None


class MessageTokensCount(Struct, frozen=True):
    """How many input tokens a call would have."""

    input_tokens: int
