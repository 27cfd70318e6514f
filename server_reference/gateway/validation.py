"""What a request must satisfy besides its form: the right model, and a prompt that fits."""

from __future__ import annotations

from ..api.chat import ChatRequest
from ..api.errors import ApiError
from ..api.models import unknown_model
from ..api.wire import encode
from ..core import SamplingParams
from .grammars import grammar_of
from .tool_text import CLOSE

__all__ = ["check_length", "check_model", "check_tokens", "fit", "size_of"]

# Counting tokens goes on past the context, but not for ever.
_LEAST_LONGEST_TOKEN = 64


def check_model(request: ChatRequest, *, served: str) -> None:
    """Refuse a model that is not served.

    Raises:
        ApiError: It is another one.
    """
    if request.model != served:
        raise unknown_model(request.model, served, param="model")


def size_of(request: ChatRequest) -> int:
    """Characters of a request's prompt, about: what is in messages and tools."""
    size = sum(len(turn["content"]) for turn in request.messages) + len(request.prefill)
    calls = [turn["tool_calls"] for turn in request.messages if "tool_calls" in turn]
    tools = [tool.parameters for tool in request.tools]
    size += sum(len(tool.name) + len(tool.description or "") for tool in request.tools)
    return size + (len(encode([calls, tools])) if calls or tools else 0)


def check_length(request: ChatRequest, size: int, *, longest_token: int, max_context: int) -> None:
    """Refuse at once what can never fit: to tokenize 32 MB takes a minute and gigabytes.

    Args:
        size: Characters of the prompt.
        longest_token: Characters that one token stands for at most.
        max_context: Tokens of the model's context.

    Raises:
        ApiError: Even in the longest tokens the messages are longer than the context.
    """
    turns = len(request.messages)
    least = max(turns, size // max(longest_token, _LEAST_LONGEST_TOKEN))
    if least > max_context:
        raise ApiError(
            "invalid",
            f"{turns:,} messages of {size:,} characters have more than the {max_context:,} "
            f"tokens of the model's context; shorten the messages",
            param=request.messages_field,
            code="context_length_exceeded",
        )


def check_tokens(request: ChatRequest, *, vocab_size: int) -> None:
    """Refuse token ids that the model does not have.

    Raises:
        ApiError: One of `logit_bias` or `stop_token_ids` is.
    """
    ids = {
        "logit_bias": [token for token, _ in request.logit_bias],
        "stop_token_ids": request.stop_token_ids,
    }
    for name, named in ids.items():
        if named and max(named) >= vocab_size:
            what = f"{name} names token {max(named):,}, but the model has {vocab_size:,}"
            raise ApiError("invalid", f"{what}, counted from 0", param=name)


def fit(request: ChatRequest, *, prompt_tokens: int, capacity: int) -> SamplingParams:
    """How to sample, with `max_tokens` lowered to what is left beside the prompt.

    Args:
        capacity: Tokens of one sequence: the model's context or the whole KV pool.

    Raises:
        ApiError: The prompt leaves no room for a token, or does not fit at all.
    """
    wanted = 0 if request.max_tokens == 0 else 1
    if prompt_tokens + wanted > capacity:
        raise ApiError(
            "invalid",
            f"the prompt has {prompt_tokens:,} tokens and needs room for {wanted} more, but one "
            f"request may have {capacity:,} here; shorten the messages",
            param=request.messages_field,
            code="context_length_exceeded",
        )
    room = capacity - prompt_tokens
    return SamplingParams(
        max_tokens=room if request.max_tokens is None else min(request.max_tokens, room),
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        min_p=request.min_p,
        repetition_penalty=request.repetition_penalty,
        frequency_penalty=request.frequency_penalty,
        presence_penalty=request.presence_penalty,
        logit_bias=request.logit_bias,
        seed=request.seed,
        logprobs=request.logprobs,
        prompt_logprobs=request.prompt_logprobs,
        stop=_stops(request),
        stop_token_ids=request.stop_token_ids,
        min_tokens=min(request.min_tokens, room),
        ignore_eos=request.ignore_eos,
        grammar=grammar_of(request),
    )


def _stops(request: ChatRequest) -> tuple[str, ...]:
    """The caller's, and a call's end where there may be one call only."""
    if request.callable_tools and not request.tool_choice.parallel:
        return (*request.stop, CLOSE)
    return request.stop
