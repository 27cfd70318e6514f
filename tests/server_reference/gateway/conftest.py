"""What tests of the gateway share: a replica that counts instead of computing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from server_reference.core import (
    EngineStats,
    GenerateRequest,
    SequenceUpdate,
    StageTimes,
    StepRecord,
    TokenLogprob,
)
from server_reference.processes.process import EngineUnavailableError


@dataclass
class CountingReplica:
    """Answers every request with digits, one for each token asked for.

    Attributes:
        says: Texts instead of the digits, one for each token, by the request's place.
        told: Log-probabilities that every token has.
        cached: Prompt tokens that it says it had in its cache.
        ends_with: What the last update changes.
        gate: Set: updates flow.
    """

    capacity: int = 1000
    is_ready: bool = True
    num_queued: int = 0
    num_queued_tokens: int = 0
    cached: int = 0
    says: Sequence[Sequence[str]] = ()
    told: list[TokenLogprob] = field(default_factory=list)
    ends_with: dict[str, object] = field(default_factory=dict)
    is_lost: bool = False
    gate: asyncio.Event | None = None
    asked: list[GenerateRequest] = field(default_factory=list)
    running: int = 0

    @property
    def stats(self) -> EngineStats | None:
        return EngineStats(
            num_running=self.running,
            num_queued=self.num_queued,
            num_queued_tokens=self.num_queued_tokens,
            num_blocks=8,
            num_free_blocks=8,
            num_cached_blocks=0,
            steps=0,
            preemptions=0,
            prefix_tokens_queried=0,
            prefix_tokens_hit=0,
        )

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[SequenceUpdate, None]:
        if self.is_lost:
            raise EngineUnavailableError("the engine is not ready; try again in a few seconds")
        place = len(self.asked)
        self.asked.append(request)
        self.running += 1
        try:
            if self.gate is not None:
                await self.gate.wait()
            says = self.says[place] if self.says else None
            most = request.params.max_tokens if says is None else len(says)
            for made in range(1, max(1, most) + 1):
                await asyncio.sleep(0)
                update = self._update(request, made, most)
                yield update if says is None else replace(update, text=says[made - 1])
        finally:
            self.running -= 1

    async def explain(self, last: int) -> list[StepRecord]:
        if self.is_lost:
            raise EngineUnavailableError("the engine is not ready; try again in a few seconds")
        return [StepRecord(number=1, at=0.5, duration=None)][-last:]

    def _update(self, request: GenerateRequest, made: int, wanted: int) -> SequenceUpdate:
        is_last = made >= wanted
        fields = {
            "id": request.id,
            "text": str(made % 10) if wanted else "",
            "num_output_tokens": min(made, wanted),
            "num_cached_tokens": self.cached,
            "times": StageTimes(queue=0.5, prefill=0.25, decode=2.0 if is_last else None),
            "finish_reason": "length" if is_last else None,
            "logprobs": self.told,
        }
        return SequenceUpdate(**(fields | (self.ends_with if is_last else {})))


@pytest.fixture
def replica() -> CountingReplica:
    return CountingReplica()
