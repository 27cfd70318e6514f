"""The Chat Completions format: POST .../chat/completions, JSON or server-sent events.

Source: OpenAI API reference, "Chat Completions"; read as its many imitators speak it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec

from . import openai_types as types
from ._base import Delta, Failure, Part
from .failures import malformed, mended_part, read_failure, reported, stream_failure
from .openai_accumulator import CompletionAccumulator
from .sse import Event
from .usage import Usage, normal, served_as, uncached_of
from .value import build, decode, sourced, struct

__all__ = ["OpenAIChat"]

_NOTHING = Delta()
_TOKENS = Delta(has_tokens=True)
_SILENT = Part(None, _NOTHING)
_DONE = Part(None, Delta(is_terminal=True))
_WRITE_TTL = "30m"  # the shortest that this API sells; Chat tells no other
_GATEWAYS_TTL = "5m"  # Anthropic's usual one, where a gateway tells what that API wrote


class OpenAIChat:
    """Reads and accumulates OpenAI's Chat Completions."""

    name = "openai.chat"
    provider = "openai"
    request_id_header = "x-request-id"
    finish_is_end = True  # not all who speak it send [DONE]

    def recognises(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/chat/completions")

    def part(self, event: Event) -> Part:
        try:
            value = self._decoder.decode(event.data)
        except (msgspec.DecodeError, RecursionError) as error:
            return self._odd_part(event, error)
        return self._read(event, value)

    def whole(self, body: bytes) -> Part:
        try:
            completion = self.value(body)
        except msgspec.DecodeError as error:
            why = f"the reply is no Chat Completions JSON: {error}"
            return Part(None, Delta(failure=malformed(why)))
        choices = completion.choices if isinstance(completion.choices, list) else []
        if completion.__dict__.get("error") is not None:
            return Part(completion, Delta(failure=reported(body)))
        if (failure := _failed(choices)) is not None:
            return Part(completion, Delta(failure=failure))
        delta = Delta(
            has_tokens=bool(choices),
            usage=_usage(completion.usage, body),
            served=served_as(completion.model, completion.service_tier),
            is_terminal=True,
            finish=_finish(choices),
        )
        return Part(completion, delta)

    def value(self, body: bytes) -> types.ChatCompletion:
        return types.ChatCompletion.from_json(body)

    def text(self, value: object) -> str:
        match value:
            case types.ChatCompletion(choices=[types.Choice(message=said), *_]):
                told = [said.content]
            case types.ChatCompletionChunk(choices=choices):
                told = [one.delta.content for one in choices if not one.index]
            case _:
                return ""
        return "".join(text for text in told if isinstance(text, str))

    def failure(self, status: int, body: bytes) -> Failure:
        return read_failure(status, body)

    def accumulator(self) -> CompletionAccumulator:
        return CompletionAccumulator()

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[types.ChatCompletionChunk]:
        return msgspec.json.Decoder(types.ChatCompletionChunk, dec_hook=build)

    def _read(self, event: Event, value: types.ChatCompletionChunk) -> Part:
        sourced(value, event.data)
        if value.error is not None or event.event == "error" or value.object == "error":
            return Part(None, Delta(failure=reported(event.data)))
        has_tokens, finish = False, None
        finished: tuple[int, ...] = ()
        for choice in value.choices:
            delta = choice.delta
            has_tokens = has_tokens or bool(delta.content) or _has_tokens(delta)
            if choice.finish_reason is not None:
                if choice.finish_reason == "error":
                    return Part(None, Delta(failure=_failed(value.choices)))
                finish = finish or choice.finish_reason
                finished += (choice.index if isinstance(choice.index, int) else 0,)
        if finish is None and value.usage is None:
            return Part(value, _TOKENS if has_tokens else _NOTHING)
        usage, served = _usage(value.usage, event.data), None
        if usage is not None:  # of a chunk that only finishes, how it was served is no news
            served = served_as(value.model, value.service_tier)
        told = Delta(
            has_tokens=has_tokens, usage=usage, served=served, finish=finish, finished=finished
        )
        return Part(value, told)

    def _odd_part(self, event: Event, error: Exception) -> Part:
        """Data that the decoder refused: the terminal mark, nothing, nulls, or worse."""
        text = event.data.strip()
        if text == "[DONE]":
            return _DONE
        if text in ("", "null"):
            return _SILENT

        def read() -> Part:
            return self._read(event, struct(types.ChatCompletionChunk, decode(text)))

        return mended_part(event, error, read, what="a chunk")


def _usage(counts: types.CompletionUsage | None, source: str | bytes) -> Usage | None:
    """The counts of a reply; cached ones that nobody told are unknown."""
    if not isinstance(counts, types.CompletionUsage):
        return None
    read, written = _cached(counts)
    # This format's prompt_tokens includes what was read from the cache and written to it, also
    # where a gateway tells those in Anthropic's words too (litellm#9812).
    uncached, contradiction = uncached_of(counts.prompt_tokens, read, written)
    details = counts.completion_tokens_details
    usage = Usage(
        uncached=uncached,
        cache_read=read,
        cache_write=written,
        output=counts.completion_tokens,
        reasoning=details.reasoning_tokens if details else None,
    )
    return normal(usage, source, contradiction)


def _cached(counts: types.CompletionUsage) -> tuple[int | None, dict[str, int] | None]:
    """Tokens read from the cache, and those written to it by time to live."""
    read, written, ttl = counts.prompt_cache_hit_tokens, None, _WRITE_TTL
    if read is None:
        read = counts.cache_read_input_tokens
    details = counts.prompt_tokens_details
    if details is not None:  # null is 0: older models write nothing
        read = read or 0 if details.cached_tokens is None else details.cached_tokens
        written = details.cache_write_tokens
    if written is None and counts.cache_creation_input_tokens is not None:
        written, ttl = counts.cache_creation_input_tokens, _GATEWAYS_TTL
    if written is None and details is None:
        return read, None
    return read, {ttl: written} if written else {}


def _has_tokens(delta: types.ChunkDelta) -> bool:
    """Whether a piece without text carries other output."""
    return bool(
        delta.reasoning_content
        or delta.tool_calls
        or delta.refusal
        or delta.reasoning
        or delta.function_call
    )


def _finish(choices: Iterable[Any]) -> str | None:
    reasons = (choice.finish_reason for choice in choices if isinstance(choice, types.Choice))
    return next((reason for reason in reasons if reason), None)


def _failed(choices: Iterable[Any]) -> Failure | None:
    """The failure inside the choices of a reply or a chunk."""
    for choice in choices:
        if getattr(choice, "finish_reason", None) == "error":
            error = getattr(choice, "error", None)
            return stream_failure(error or "the answer ended with finish_reason error")
    return None
