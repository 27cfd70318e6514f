"""What an engine is to the gateway, wherever it runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from ..core import EngineStats, GenerateRequest, SequenceUpdate, StepRecord

__all__ = ["Replica"]


class Replica(Protocol):
    """One engine behind the gateway; `EngineProcess` is one."""

    @property
    def is_ready(self) -> bool:
        """Whether requests are taken now."""
        ...

    @property
    def capacity(self) -> int:
        """Tokens that one sequence may have, prompt and output together."""
        ...

    @property
    def stats(self) -> EngineStats | None:
        """The engine's books after its latest step; `None` while it is not ready."""
        ...

    def generate(self, request: GenerateRequest) -> AsyncGenerator[SequenceUpdate, None]:
        """Run one sequence; closing the generator aborts it."""
        ...

    async def explain(self, last: int) -> list[StepRecord]:
        """What it remembers of its `last` steps, oldest first.

        Raises:
            EngineUnavailableError: It is not ready, or too long in one step.
        """
        ...
