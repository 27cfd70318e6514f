"""What the Chat Completions format holds: completions, messages, and the chunks of a stream.

Every field may be missing; a field that a class does not name is reachable all the same.
Source: OpenAI API reference, "Chat Completions".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import field

from .value import Number, StreamValue, Text, Value

__all__ = [
    "ChatCompletion",
    "ChatCompletionChunk",
    "ChatMessage",
    "Choice",
    "ChunkChoice",
    "ChunkDelta",
    "ChunkFunction",
    "ChunkToolCall",
    "CompletionTokensDetails",
    "CompletionUsage",
    "Function",
    "PromptTokensDetails",
    "ToolCall",
]


class PromptTokensDetails(StreamValue, frozen=True):
    """Parts of the prompt tokens."""

    cached_tokens: Number = None
    cache_write_tokens: Number = None
    audio_tokens: Number = None


class CompletionTokensDetails(StreamValue, frozen=True):
    """Parts of the completion tokens."""

    reasoning_tokens: Number = None
    audio_tokens: Number = None
    accepted_prediction_tokens: Number = None
    rejected_prediction_tokens: Number = None


class CompletionUsage(StreamValue, frozen=True):
    """Token counts in this API's words: `prompt_tokens` includes the cached ones."""

    prompt_tokens: Number = None
    completion_tokens: Number = None
    total_tokens: Number = None
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None
    prompt_cache_hit_tokens: Number = None  # DeepSeek's word for cached_tokens
    cache_read_input_tokens: Number = None  # Anthropic's words, which gateways add
    cache_creation_input_tokens: Number = None


class Function(Value):
    """What a tool call calls; `arguments` is the model's text, which may not be JSON."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(Value):
    """A call of a tool that the model asks for."""

    _nested: ClassVar = {"function": Function}

    id: str | None = None
    type: str | None = None
    function: Function = Function.of({})


class ChatMessage(Value):
    """A message of the model."""

    _nested: ClassVar = {"tool_calls": ToolCall, "function_call": Function}

    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: Sequence[ToolCall] | None = None
    function_call: Function | None = None
    annotations: Sequence[Any] | None = None
    audio: Mapping[str, Any] | None = None


class Choice(Value):
    """One of the answers to a call."""

    _nested: ClassVar = {"message": ChatMessage}

    index: int | None = None
    message: ChatMessage = ChatMessage.of({})
    finish_reason: str | None = None
    logprobs: Mapping[str, Any] | None = None


class ChatCompletion(Value):
    """A complete reply."""

    _nested: ClassVar = {"choices": Choice, "usage": CompletionUsage}

    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    choices: Sequence[Choice] = ()
    usage: CompletionUsage | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None


class ChunkFunction(StreamValue, frozen=True):
    """A piece of what a tool call calls."""

    name: Text = None
    arguments: Text = None


class ChunkToolCall(StreamValue, frozen=True):
    """A piece of a tool call; pieces belong together by `id`, or else by `index`."""

    index: Number = None
    id: Text = None
    type: Text = None
    function: ChunkFunction | None = None


class ChunkDelta(StreamValue, frozen=True):
    """What a chunk adds to one choice's message."""

    role: Text = None
    content: Text = None
    refusal: Text = None
    reasoning_content: Text = None
    reasoning: Text = None  # the same, as OpenRouter and newer vLLM call it
    tool_calls: list[ChunkToolCall] | None = None
    function_call: ChunkFunction | None = None


class ChunkChoice(StreamValue, frozen=True):
    """What a chunk adds to one choice."""

    index: Number = None
    delta: ChunkDelta = ChunkDelta()
    finish_reason: Text = None
    logprobs: Any = None
    error: Any = None


class ChatCompletionChunk(StreamValue, frozen=True):
    """One event of a stream. Chunks without choices are usual."""

    id: Text = None
    object: Text = None
    created: Any = None  # some send a fraction
    model: Text = None
    choices: list[ChunkChoice] = field(default_factory=list)
    usage: CompletionUsage | None = None
    service_tier: Text = None
    system_fingerprint: Text = None
    error: Any = None
