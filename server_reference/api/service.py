"""What the API's routes need of whoever stands behind them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from ..core import EngineStats, StepRecord
from .chat import ChatRequest
from .events import Event
from .record import CallRecord

__all__ = ["Health", "ModelCard", "Service"]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The model that is served.

    Args:
        created: Unix seconds since when it is served.
        max_tokens: What one request may have, prompt and output together.
    """

    name: str
    created: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Health:
    """Whether requests are taken, and the books of each engine (`None`: not ready)."""

    is_ready: bool
    engines: list[EngineStats | None]


class Service(Protocol):
    """One model behind a gateway."""

    def model(self) -> ModelCard: ...

    def health(self) -> Health: ...

    async def steps(self, last: int) -> list[list[StepRecord] | None]:
        """What each engine remembers of its `last` steps; `None`: it does not answer."""
        ...

    def generate(self, request: ChatRequest, record: CallRecord) -> AsyncGenerator[Event, None]:
        """Run a request; closing the generator aborts it."""
        ...

    async def count_tokens(self, request: ChatRequest, record: CallRecord) -> int:
        """Tokens of the request's prompt.

        Raises:
            ApiError: The model is another, or its template refuses the messages.
        """
        ...
