"""What a request must satisfy besides its form: the right model, and a prompt that fits."""

from __future__ import annotations

from ..api.chat import ChatRequest
from ..api.errors import ApiError
from ..api.models import unknown_model
from ..core import SamplingParams

__all__ = ["check_model", "fit"]


def check_model(request: ChatRequest, *, served: str) -> None:
    """Refuse a model that is not served.

    Raises:
        ApiError: It is another one.
    """
    if request.model != served:
        raise unknown_model(request.model, served, param="model")


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
            param="messages",
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
