"""The Messages format: POST /v1/messages, JSON or server-sent events.

Source: Anthropic API reference, "Messages", "Streaming messages" and "Errors".
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from . import anthropic_types as types
from ._base import Delta, Failure, Part, diagnosed
from .anthropic_accumulator import MessageAccumulator
from .failures import malformed, mended_part, read_failure, reported
from .sse import Event
from .usage import Served, Usage, by_ttl, changes_input, has_fees, normal, served_as
from .value import build, decode, sourced, struct

__all__ = ["AnthropicMessages"]

_NOTHING = Delta()
_TOKENS = Delta(has_tokens=True)
_CHANGED = Delta(changes_input=True)
_FEES = Delta(changes_input=True, has_fees=True)
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
        counts = message.__dict__.get("usage")
        is_changed = _is_changed(message, counts)
        delta = Delta(
            has_tokens=bool(message.content),
            usage=_usage(counts, body),
            served=_served(counts, message.model),
            changes_input=is_changed,
            has_fees=is_changed and (_costs_more(counts) or _has_paid_block(message)),
            is_terminal=True,
            finish=message.stop_reason,
            reply_id=message.id,
            diagnosed=diagnosed(body),
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
                return Part(value, _started(value.message, event))
            case "content_block_start":
                # Empty as a rule; some servers put the first words here.
                block = value.content_block
                if block and changes_input(block.type):
                    return Part(value, _FEES if has_fees(block.type, block.name) else _CHANGED)
                return Part(value, _TOKENS if block and block.text else _NOTHING)
            case "message_delta":
                return Part(value, _grown(value, event))
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


def _started(message: types.Message | None, event: Event) -> Delta:
    """What a message_start says: of the output only a first number, which is no count yet."""
    counts = message.__dict__.get("usage") if message else None
    usage = _usage(counts, event.data, is_final=False)
    return Delta(
        usage=usage,
        served=_served(counts, message.model if message else None),
        reply_id=message.id if message else None,
        diagnosed=diagnosed(event.data),
    )


def _grown(value: types.MessageStreamEvent, event: Event) -> Delta:
    """What a message_delta says; its counts are cumulative, and null where nothing is new."""
    counts, usage = value.usage, None
    if counts is not None:
        details = counts.output_tokens_details
        has_written = counts.cache_creation or counts.cache_creation_input_tokens is not None
        written, contradiction = _written(counts) if has_written else (None, None)
        usage = Usage(
            uncached=counts.input_tokens,
            cache_read=counts.cache_read_input_tokens,
            cache_write=written,
            output=counts.output_tokens,
            reasoning=details.thinking_tokens if details else None,
        )
        usage = normal(usage, event.data, contradiction)
    return Delta(
        usage=usage,
        served=_served(counts, None),
        changes_input=_is_edited(value.context_management) or _has_more(counts),
        has_fees=_costs_more(counts),
        finish=value.delta.stop_reason,
    )


def _usage(counts: Any, source: str | bytes, *, is_final: bool = True) -> Usage | None:
    """The counts of a message; a part of the input that is missing or null is 0."""
    if not isinstance(counts, types.Usage):
        return None
    details = counts.output_tokens_details
    written, contradiction = _written(counts)
    usage = Usage(
        uncached=counts.input_tokens,  # this API's input_tokens leaves cached ones out
        cache_read=counts.cache_read_input_tokens or 0,
        cache_write=written,
        output=counts.output_tokens,
        reasoning=details.thinking_tokens if details else None,
        is_final=is_final,
    )
    return normal(usage, source, contradiction)


def _written(counts: types.Usage) -> tuple[dict[str, int], str | None]:
    """Tokens written to the cache by time to live, `5m` where not told; what contradicts."""
    total, split = counts.cache_creation_input_tokens, counts.cache_creation
    if not total and split is None:
        return {}, None
    short = (split.ephemeral_5m_input_tokens or 0) if split else 0
    long = (split.ephemeral_1h_input_tokens or 0) if split else 0
    return by_ttl(total, {"5m": short, "1h": long})


def _served(counts: Any, model: Any) -> Served | None:
    if not isinstance(counts, types.Usage):
        return None
    return served_as(model, counts.service_tier, counts.speed, counts.inference_geo)


def _is_changed(message: types.Message, counts: Any) -> bool:
    """Whether the provider added to the input of a whole message, or cut from it."""
    if _is_edited(message.__dict__.get("context_management")) or _has_more(counts):
        return True
    blocks = message.__dict__.get("content")
    if isinstance(blocks, list):
        for block in blocks:
            if isinstance(block, types.ContentBlock) and changes_input(block.type):
                return True
    return False


def _has_more(counts: Any) -> bool:
    """Whether counts are those of several passes of the model over a growing input."""
    if not isinstance(counts, types.Usage):
        return False
    tools = counts.server_tool_use
    if tools is None and counts.iterations is None:
        return False
    return bool(counts.iterations or (tools and isinstance(tools, dict) and any(tools.values())))


def _costs_more(counts: Any) -> bool:
    """Whether counts tell of searches, or leave out passes such as those of a compaction."""
    if not isinstance(counts, types.Usage):
        return False
    tools = counts.server_tool_use
    return bool(counts.iterations or (isinstance(tools, dict) and tools.get("web_search_requests")))


def _has_paid_block(message: types.Message) -> bool:
    blocks = message.__dict__.get("content")
    return isinstance(blocks, list) and any(
        has_fees(block.type, block.name)
        for block in blocks
        if isinstance(block, types.ContentBlock)
    )


def _is_edited(context: Any) -> bool:
    return isinstance(context, dict) and bool(context.get("applied_edits"))
