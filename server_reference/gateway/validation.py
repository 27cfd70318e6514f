"""What a request must satisfy besides its form: the right model, and a prompt that fits."""

from __future__ import annotations

from ..api.chat import ChatRequest
from ..api.errors import ApiError
from ..api.models import unknown_model
from ..core import SamplingParams

__all__ = ["check_length", "check_model", "fit"]

# Counting tokens goes on past the context, but not for ever.
_LEAST_LONGEST_TOKEN = 64


def check_model(request: ChatRequest, *, served: str) -> None:
    """Refuse a model that is not served.

    Raises:
        ApiError: It is another one.
    """
    if request.model != served:
        raise unknown_model(request.model, served, param="model")


def check_length(request: ChatRequest, *, longest_token: int, max_context: int) -> None:
    """Refuse at once what can never fit: to tokenize 32 MB takes a minute and gigabytes.

    Args:
        longest_token: Characters that one token stands for at most.
        max_context: Tokens of the model's context.

    Raises:
        ApiError: Even in the longest tokens the messages are longer than the context.
    """
    turns = len(request.messages)
    characters = sum(len(turn["content"]) for turn in request.messages) + len(request.prefill)
    least = max(turns, characters // max(longest_token, _LEAST_LONGEST_TOKEN))
    if least > max_context:
        raise ApiError(
            "invalid",
            f"{turns:,} messages of {characters:,} characters have more than the {max_context:,} "
            f"tokens of the model's context; shorten the messages",
            param=request.messages_field,
            code="context_length_exceeded",
        )


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
        seed=request.seed,
        stop=request.stop,
    )
