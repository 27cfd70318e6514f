"""What tests of the API share: a service that plays what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import pytest

from server_reference.api.chat import ChatRequest
from server_reference.api.events import Event
from server_reference.api.record import CallRecord
from server_reference.api.service import Health, ModelCard
from server_reference.core import SequenceRecord, StepRecord, WaitingRecord


@dataclass
class PlayedService:
    """Plays `events` for every request; a float among them is a pause in seconds."""

    events: Sequence[Event | float] = ()
    is_ready: bool = True
    asked: list[ChatRequest] = field(default_factory=list)
    aborted: int = 0

    def model(self) -> ModelCard:
        return ModelCard("tiny", 1_700_000_000, 4096)

    def health(self) -> Health:
        return Health(self.is_ready, [None])

    async def steps(self, last: int) -> list[list[StepRecord] | None]:
        running = SequenceRecord(id="a", tenant="ann", start=3, num_tokens=1, why="decode")
        waiting = WaitingRecord(id="b", tenant="bob", num_tokens=9, why="no free slot")
        step = StepRecord(number=7, at=1.5, duration=0.25, scheduled=(running,), waiting=(waiting,))
        return [[step][:last], None]

    async def count_tokens(self, request: ChatRequest, record: CallRecord) -> int:
        return sum(len(message["content"]) for message in request.messages)

    async def generate(
        self, request: ChatRequest, record: CallRecord
    ) -> AsyncGenerator[Event, None]:
        self.asked.append(request)
        try:
            for event in self.events:
                if isinstance(event, float):
                    await asyncio.sleep(event)
                else:
                    yield event
        except (GeneratorExit, asyncio.CancelledError):
            self.aborted += 1
            raise


@pytest.fixture
def service() -> PlayedService:
    return PlayedService()
