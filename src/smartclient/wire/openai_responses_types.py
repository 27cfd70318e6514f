"""What the Responses format holds: responses, their output items, and the events of a stream.

Every field may be missing; a field that a class does not name is reachable all the same.
Source: OpenAI API reference, "Responses" and "Responses: streaming events".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from .value import Number, StreamValue, Text, Value

__all__ = [
    "CacheWriteTokensDetails",
    "ContentPart",
    "IncompleteDetails",
    "InputTokensCount",
    "InputTokensDetails",
    "OutputItem",
    "OutputTokensDetails",
    "Response",
    "ResponseError",
    "ResponseStreamEvent",
    "ResponseUsage",
]


class CacheWriteTokensDetails(StreamValue, frozen=True):
    """Input tokens written to the cache, by time to live."""

    ttl_30m_tokens: Number = None
    ttl_12h_tokens: Number = None


class InputTokensDetails(StreamValue, frozen=True):
    """Parts of the input tokens."""

    cached_tokens: Number = None
    cache_write_tokens: Number = None
    cache_write_tokens_details: CacheWriteTokensDetails | None = None


class OutputTokensDetails(StreamValue, frozen=True):
    """Parts of the output tokens."""

    reasoning_tokens: Number = None


class ResponseUsage(StreamValue, frozen=True):
    """Token counts in this API's words: `input_tokens` includes the cached ones."""

    input_tokens: Number = None
    input_tokens_details: InputTokensDetails | None = None
    output_tokens: Number = None
    output_tokens_details: OutputTokensDetails | None = None
    total_tokens: Number = None


class ContentPart(Value):
    """One part of an output item's content, or of a reasoning item's summary."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    annotations: Sequence[Any] | None = None
    logprobs: Sequence[Any] | None = None


class OutputItem(Value):
    """One item of a response's output: a message, a reasoning, a call of a tool, or new.

    Put it into the next call's `input` as it is: its bytes go back unchanged.
    """

    _nested: ClassVar = {"content": ContentPart, "summary": ContentPart}

    id: str | None = None
    type: str | None = None
    status: str | None = None
    role: str | None = None
    phase: str | None = None
    content: Sequence[ContentPart] = ()
    summary: Sequence[ContentPart] = ()
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None


class ResponseError(Value):
    """Why a response failed."""

    code: str | None = None
    message: str | None = None
    type: str | None = None
    param: str | None = None


class IncompleteDetails(Value):
    """Why a response is incomplete."""

    reason: str | None = None


class Response(Value):
    """A reply of the model."""

    _nested: ClassVar = {
        "output": OutputItem,
        "error": ResponseError,
        "incomplete_details": IncompleteDetails,
        "usage": ResponseUsage,
    }

    id: str | None = None
    object: str | None = None
    created_at: float | None = None
    status: str | None = None
    model: str | None = None
    output: Sequence[OutputItem] = ()
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    usage: ResponseUsage | None = None
    instructions: str | Sequence[Any] | None = None
    max_output_tokens: int | None = None
    metadata: Mapping[str, str] | None = None
    previous_response_id: str | None = None
    service_tier: str | None = None

    @property
    def output_text(self) -> str:
        """The text of every message in the output, joined; empty when there is none."""
        parts = (
            part
            for item in _all(self.output, OutputItem)
            if item.type == "message"
            for part in _all(item.content, ContentPart)
        )
        return "".join(
            part.text for part in parts if part.type == "output_text" and isinstance(part.text, str)
        )


class ResponseStreamEvent(StreamValue, frozen=True):
    """One event of a stream; `type` says which of its fields were sent."""

    type: Text = None
    sequence_number: Number = None
    response: Response | None = None
    item: OutputItem | None = None
    part: ContentPart | None = None
    item_id: Text = None
    output_index: Number = None
    content_index: Number = None
    summary_index: Number = None
    annotation_index: Number = None
    delta: Text = None
    text: Text = None
    refusal: Text = None
    arguments: Text = None
    input: Text = None
    code: Text = None  # of an error, or what a code interpreter runs
    annotation: Any = None
    message: Text = None
    param: Text = None
    error: Any = None


class InputTokensCount(Struct, frozen=True):
    """How many input tokens a response would have."""

    input_tokens: int
    object: str = "response.input_tokens"


def _all(items: Any, kind: type[Any]) -> list[Any]:
    """Those of `items`, whatever it is, that are of `kind`."""
    return [one for one in items if isinstance(one, kind)] if isinstance(items, list) else []
