"""Wire formats: one adapter per provider's API, and the values they are translated to."""

from __future__ import annotations

from functools import cache, lru_cache

from ._base import Accumulator, Adapter, Delta, Failure, FailureKind, Part
from .failures import failure_by_status
from .usage import Served, Usage

__all__ = [
    "Accumulator",
    "Adapter",
    "Delta",
    "Failure",
    "FailureKind",
    "Part",
    "Served",
    "Usage",
    "adapters",
    "failure_by_status",
    "recognise",
]


@cache
def adapters() -> tuple[Adapter, ...]:
    """Every format that this package understands."""
    # Imported when the first call is made: their types take time to build.
    from .anthropic_messages import AnthropicMessages
    from .openai_chat import OpenAIChat
    from .openai_responses import OpenAIResponses

    return AnthropicMessages(), OpenAIChat(), OpenAIResponses()


@lru_cache(maxsize=128)
def recognise(method: str, path: str) -> Adapter | None:
    """The format that a request to `path` (without query) speaks, if it is a known one."""
    if method != "POST":
        return None
    return next((one for one in adapters() if one.recognises(method, path)), None)
