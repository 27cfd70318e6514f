"""What the methods of our own clients take, as types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Required, TypedDict

from ._call import Timeout
from ._request import PerCall
from .net.secret import hidden

__all__ = [
    "CallParams",
    "ChatParams",
    "CountParams",
    "MessageParams",
    "ResponseCountParams",
    "ResponseParams",
    "Turns",
    "hide_headers",
    "split",
]

# Mappings, or messages and blocks that came back from an earlier call.
Turns = Sequence[Any]


class CallParams(TypedDict, total=False):
    """What any one call may be given; `PerCall` says what each means."""

    timeout: Timeout | float | None
    max_retries: int | None
    extra_headers: Mapping[str, str] | None
    extra_query: Mapping[str, Any] | None
    extra_body: Mapping[str, Any] | None


class CountParams(CallParams, total=False):
    """Of `messages.count_tokens`. Source: Anthropic API reference, "Count tokens"."""

    model: Required[str]
    messages: Required[Turns]
    system: str | Turns
    thinking: Mapping[str, Any]
    tool_choice: Mapping[str, Any]
    tools: Turns


class MessageParams(CountParams, total=False):
    """Of `messages.create`. Source: Anthropic API reference, "Create a message".

    A parameter that is not listed goes into `extra_body`.
    """

    max_tokens: Required[int]
    cache_control: Mapping[str, Any]
    container: Any
    context_management: Mapping[str, Any]
    metadata: Mapping[str, Any]
    output_config: Mapping[str, Any]
    service_tier: str
    stop_sequences: Iterable[str]
    temperature: float
    top_k: int
    top_p: float


class ChatParams(CallParams, total=False):
    """Of `chat.completions.create`. Source: OpenAI API reference, "Create chat completion".

    A parameter that is not listed goes into `extra_body`.
    """

    model: Required[str]
    messages: Required[Turns]
    frequency_penalty: float
    logit_bias: Mapping[str, int]
    logprobs: bool
    max_completion_tokens: int
    max_tokens: int
    metadata: Mapping[str, str]
    n: int
    parallel_tool_calls: bool
    presence_penalty: float
    prompt_cache_key: str
    reasoning_effort: str
    response_format: Mapping[str, Any]
    seed: int
    service_tier: str
    stop: str | Iterable[str]
    store: bool
    stream_options: Mapping[str, Any]
    temperature: float
    tool_choice: str | Mapping[str, Any]
    tools: Turns
    top_logprobs: int
    top_p: float
    user: str
    verbosity: str


class ResponseParams(CallParams, total=False):
    """Of `responses.create`. Source: OpenAI API reference, "Create a response".

    A parameter that is not listed goes into `extra_body`.
    """

    model: Required[str]
    input: Required[str | Turns]
    background: bool
    conversation: str | Mapping[str, Any]
    include: Sequence[str]
    instructions: str
    max_output_tokens: int
    max_tool_calls: int
    metadata: Mapping[str, str]
    parallel_tool_calls: bool
    previous_response_id: str
    prompt: Mapping[str, Any]
    prompt_cache_key: str
    prompt_cache_options: Mapping[str, Any]
    reasoning: Mapping[str, Any]
    safety_identifier: str
    service_tier: str
    store: bool
    stream_options: Mapping[str, Any]
    temperature: float
    text: Mapping[str, Any]
    tool_choice: str | Mapping[str, Any]
    tools: Turns
    top_logprobs: int
    top_p: float
    truncation: str


class ResponseCountParams(CallParams, total=False):
    """Of `responses.input_tokens.count`. Source: OpenAI API reference, "Get input token counts".

    A parameter that is not listed goes into `extra_body`.
    """

    model: Required[str]
    input: str | Turns
    conversation: str | Mapping[str, Any]
    instructions: str
    parallel_tool_calls: bool
    personality: str
    previous_response_id: str
    reasoning: Mapping[str, Any]
    text: Mapping[str, Any]
    tool_choice: str | Mapping[str, Any]
    tools: Turns
    truncation: str


def hide_headers(params: Any) -> None:
    """Put values that are not shown in the place of `extra_headers`, which may hold a key.

    In place, so that no frame that an error comes through shows them.
    """
    if "extra_headers" in params:
        params["extra_headers"] = hidden(params["extra_headers"])


def split(params: dict[str, Any], *required: str) -> tuple[dict[str, Any], PerCall]:
    """The body's fields, and what is for us.

    Raises:
        TypeError: A required parameter is missing.
    """
    missing = [name for name in required if name not in params]
    if missing:
        raise TypeError(f"the call needs {' and '.join(missing)}")
    if _OURS.isdisjoint(params):
        return dict(params), _NOTHING_GIVEN
    hide_headers(params)
    payload = {name: value for name, value in params.items() if name not in _OURS}
    return payload, PerCall(**{name: params[name] for name in _OURS if name in params})


_OURS = frozenset(PerCall.__struct_fields__)
_NOTHING_GIVEN = PerCall()
