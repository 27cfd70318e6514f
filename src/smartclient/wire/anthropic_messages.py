"""The Messages format: POST /v1/messages, JSON or server-sent events.

Source: Anthropic API reference, "Messages", "Streaming messages" and "Errors".
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from . import anthropic_types as types
from ._base import Delta, Failure, Part, Usage
from .anthropic_accumulator import MessageAccumulator
from .failures import malformed, mended_part, read_failure, reported
from .sse import Event
from .value import build, decode, sourced, struct

__all__ = ["AnthropicMessages"]

_NOTHING = Delta()
_TOKENS = Delta(has_tokens=True)
_SILENT = Part(None, _NOTHING)


class AnthropicMessages:
    """Reads and accumulates Anthropic's Messages."""

    name = "anthropic.messages"
    provider = "anthropic"
    request_id_header = "request-id"
    finish_is_end = False

    def recognises(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith(("/v1/messages", "/v1/messages/count_tokens"))

    def part(self, event: Event) -> Part:
        try:
            value = self._decoder.decode(event.data)
        except (msgspec.DecodeError, RecursionError) as error:
            return self._odd_part(event, error)
        return self._read(event, value)

    def whole(self, body: bytes) -> Part:
        try:
            message = self.value(body)
        except msgspec.DecodeError as error:
            why = f"the reply is no Messages JSON: {error}"
            return Part(None, Delta(failure=malformed(why)))
        if message.__dict__.get("error") is not None:
            return Part(message, Delta(failure=reported(body)))
        delta = Delta(
            has_tokens=bool(message.content),
            usage=_usage(message.__dict__.get("usage")),
            is_terminal=True,
            finish=message.stop_reason,
        )
        return Part(message, delta)

    def value(self, body: bytes) -> types.Message:
        return types.Message.from_json(body)

    def text(self, value: object) -> str:
        match value:
            case types.Message(content=list(blocks)):
                return "".join(map(self.text, blocks))
            case types.ContentBlock(type="text", text=str(text)):
                return text
            case types.MessageStreamEvent(type="content_block_start"):
                return self.text(value.content_block)  # empty, but not with everyone
            case types.MessageStreamEvent(type="content_block_delta"):
                return value.delta.text if isinstance(value.delta.text, str) else ""
            case _:
                return ""

    def failure(self, status: int, body: bytes) -> Failure:
        return read_failure(status, body)

    def accumulator(self) -> MessageAccumulator:
        return MessageAccumulator()

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[types.MessageStreamEvent]:
        return msgspec.json.Decoder(types.MessageStreamEvent, dec_hook=build)

    def _read(self, event: Event, value: types.MessageStreamEvent) -> Part:
        sourced(value, event.data)
        kind = value.type or event.event
        if value.error is not None or kind == "error":
            return Part(None, Delta(failure=reported(event.data)))
        if kind == "content_block_delta":
            delta = value.delta
            has_tokens = delta.text or delta.thinking or delta.partial_json
            return Part(value, _TOKENS if has_tokens else _NOTHING)
        match kind:
            case "message_start":
                told = value.message.__dict__.get("usage") if value.message else None
                return Part(value, Delta(usage=_usage(told)))
            case "content_block_start":
                # Empty as a rule; some servers put the first words here.
                block = value.content_block
                return Part(value, _TOKENS if block and block.text else _NOTHING)
            case "message_delta":
                told = _usage_so_far(value.usage)
                return Part(value, Delta(usage=told, finish=value.delta.stop_reason))
            case "message_stop":
                return Part(value, Delta(is_terminal=True))
            case "ping":
                return _SILENT
            case _:
                return Part(value, _NOTHING)  # whatever comes next

    def _odd_part(self, event: Event, error: Exception) -> Part:
        """Data that the decoder refused: nothing, nulls, a foreign terminal mark, or worse."""
        text = event.data.strip()
        if text in ("", "null", "[DONE]"):
            return _SILENT

        def read() -> Part:
            return self._read(event, struct(types.MessageStreamEvent, decode(text)))

        return mended_part(event, error, read, what=f"an event {event.event!r}")


def _usage(counts: types.Usage | None) -> Usage | None:
    """The counts of a whole message; one that is missing or null is 0."""
    if not isinstance(counts, types.Usage):
        return None
    details = counts.output_tokens_details
    return Usage(
        uncached=counts.input_tokens or 0,  # this API's input_tokens leaves cached ones out
        cache_read=counts.cache_read_input_tokens or 0,
        cache_write=_written(counts),
        output=counts.output_tokens or 0,
        reasoning=details.thinking_tokens if details else None,
    )


def _usage_so_far(counts: types.Usage | None) -> Usage | None:
    """The counts of a message_delta: cumulative, and null where it has nothing new."""
    if counts is None:
        return None
    details = counts.output_tokens_details
    has_written = counts.cache_creation or counts.cache_creation_input_tokens is not None
    return Usage(
        uncached=counts.input_tokens,
        cache_read=counts.cache_read_input_tokens,
        cache_write=_written(counts) if has_written else None,
        output=counts.output_tokens,
        reasoning=details.thinking_tokens if details else None,
    )


def _written(counts: types.Usage) -> dict[str, int]:
    """Tokens written to the cache by time to live; what is not told apart is `5m`."""
    total, split = counts.cache_creation_input_tokens, counts.cache_creation
    short = (split.ephemeral_5m_input_tokens or 0) if split else 0
    long = (split.ephemeral_1h_input_tokens or 0) if split else 0
    if total is not None and total != short + long:
        short, long = total, 0  # the total is what is billed
    return {ttl: num for ttl, num in (("5m", short), ("1h", long)) if num}
