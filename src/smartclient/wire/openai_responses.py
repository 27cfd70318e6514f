"""The Responses format: POST .../responses, JSON or server-sent events.

Source: OpenAI API reference, "Responses" and "Responses: streaming events".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec

from . import openai_responses_types as types
from ._base import Delta, Failure, Part, diagnosed
from .failures import malformed, mended_part, read_failure, reported, stream_failure
from .openai_responses_accumulator import ResponseAccumulator
from .sse import Event
from .usage import Served, Usage, by_ttl, changes_input, has_fees, normal, served_as, uncached_of
from .value import build, decode, sourced, struct, with_sources

__all__ = ["OpenAIResponses"]

_NOTHING = Delta()
_TOKENS = Delta(has_tokens=True)
_SILENT = Part(None, _NOTHING)
_ENDS = frozenset({"response.completed", "response.incomplete"})
_TOOL_OUTPUT = "response.shell_call_output_content.delta"  # the only delta not of the model


class OpenAIResponses:
    """Reads and accumulates OpenAI's Responses."""

    name = "openai.responses"
    provider = "openai"
    request_id_header = "x-request-id"
    finish_is_end = False

    def recognises(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith(("/responses", "/responses/input_tokens"))

    def part(self, event: Event) -> Part:
        try:
            value = self._decoder.decode(event.data)
        except (msgspec.DecodeError, RecursionError) as error:
            return self._odd_part(event, error)
        if value.response is not None or value.item is not None:
            with_sources(value, event.data)
        return self._read(event, value)

    def whole(self, body: bytes) -> Part:
        try:
            response = self.value(body)
        except msgspec.DecodeError as error:
            why = f"the reply is no Responses JSON: {error}"
            return Part(None, Delta(failure=malformed(why)))
        usage, served = _usage(response.usage, body), _served(response)
        if response.error is not None or response.status == "failed":
            return Part(response, Delta(failure=reported(body), usage=usage, served=served))
        delta = Delta(
            has_tokens=bool(response.output),
            usage=usage,
            served=served,
            changes_input=_is_changed(response),
            has_fees=_is_changed(response, has_fees),
            is_terminal=True,
            finish=_finish(response),
            reply_id=response.id,
            diagnosed=diagnosed(body),
        )
        return Part(response, delta)

    def value(self, body: bytes) -> types.Response:
        return types.Response.from_json(body)

    def text(self, value: object) -> str:
        match value:
            case types.Response():
                return value.output_text
            case types.ResponseStreamEvent(type="response.output_text.delta", delta=str(delta)):
                return delta
            case _:
                return ""

    def failure(self, status: int, body: bytes) -> Failure:
        return read_failure(status, body)

    def accumulator(self) -> ResponseAccumulator:
        return ResponseAccumulator()

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[types.ResponseStreamEvent]:
        return msgspec.json.Decoder(types.ResponseStreamEvent, dec_hook=build)

    def _read(self, event: Event, value: types.ResponseStreamEvent) -> Part:
        sourced(value, event.data)
        kind = value.type or event.event
        if value.error is not None or kind == "error":
            return Part(None, Delta(failure=_failed(value)))
        if kind.endswith(".delta"):
            has_tokens = value.delta and kind != _TOOL_OUTPUT
            return Part(value, _TOKENS if has_tokens else _NOTHING)
        if value.response is None:
            if kind in _ENDS:
                return Part(value, Delta(is_terminal=True))
            return Part(value, _NOTHING)  # whatever it is, or comes next
        usage, served = _usage(value.response.usage, event.data), _served(value.response)
        if kind == "response.failed":
            error = value.response.error
            told = error.to_dict() if isinstance(error, types.ResponseError) else error
            failure = stream_failure(told)
            delta = Delta(failure=failure, usage=usage, served=served, is_terminal=True)
            return Part(None, delta)
        if kind in _ENDS:
            delta = Delta(
                usage=usage,
                served=served,
                changes_input=_is_changed(value.response),
                has_fees=_is_changed(value.response, has_fees),
                is_terminal=True,
                finish=_finish(value.response),
                reply_id=value.response.id,
                diagnosed=diagnosed(event.data),
            )
            return Part(value, delta)
        return Part(value, _NOTHING if usage is None else Delta(usage=usage, served=served))

    def _odd_part(self, event: Event, error: Exception) -> Part:
        """Data that the decoder refused: nothing, nulls, Chat's terminal mark, or worse."""
        text = event.data.strip()
        if text in ("", "null", "[DONE]"):
            return _SILENT

        def read() -> Part:
            return self._read(event, struct(types.ResponseStreamEvent, decode(text)))

        return mended_part(event, error, read, what=f"an event {event.event!r}")


def _usage(counts: types.ResponseUsage | None, source: str | bytes) -> Usage | None:
    """The counts of a response; cached ones that nobody told are unknown."""
    if not isinstance(counts, types.ResponseUsage):
        return None
    read = written = contradiction = None
    details, output = counts.input_tokens_details, counts.output_tokens_details
    if details is not None:
        read = details.cached_tokens or 0
        written, contradiction = _written(details)
    # This API's input_tokens includes what was read from the cache and written to it.
    uncached, beyond = uncached_of(counts.input_tokens, read, written)
    usage = Usage(
        uncached=uncached,
        cache_read=read,
        cache_write=written,
        output=counts.output_tokens,
        reasoning=output.reasoning_tokens if output else None,
    )
    return normal(usage, source, beyond or contradiction)


def _written(details: types.InputTokensDetails) -> tuple[dict[str, int], str | None]:
    """Tokens written to the cache by time to live, `30m` where not told; what contradicts."""
    split = details.cache_write_tokens_details
    if not details.cache_write_tokens and split is None:
        return {}, None
    short = (split.ttl_30m_tokens or 0) if split else 0
    long = (split.ttl_12h_tokens or 0) if split else 0
    return by_ttl(details.cache_write_tokens, {"30m": short, "12h": long})


def _served(response: types.Response) -> Served | None:
    return None if response.usage is None else served_as(response.model, response.service_tier)


def _is_changed(response: types.Response, how: Callable[[Any], bool] = changes_input) -> bool:
    """Whether a tool ran at the provider, so that there was more input than the request's."""
    items = response.output if isinstance(response.output, list) else ()
    return any(how(getattr(item, "type", None)) for item in items)


def _finish(response: types.Response) -> str | None:
    """Why the model stopped: the reason when the response is incomplete, else its status."""
    details = response.incomplete_details
    reason = details.reason if isinstance(details, types.IncompleteDetails) else None
    return reason or response.status


def _failed(value: types.ResponseStreamEvent) -> Failure:
    """The failure that an `error` event is, whose facts stand in it or in an object of it."""
    if value.error is not None:
        return stream_failure(value.error)
    return stream_failure({"code": value.code, "message": value.message, "param": value.param})
