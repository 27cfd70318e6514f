"""What the front notes about one HTTP call while it passes: stages, tokens, how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex

__all__ = ["CallRecord", "StageTime"]


@dataclass(frozen=True, slots=True)
class StageTime:
    """A stage of a call, in seconds since the call arrived."""

    start: float
    duration: float


class CallRecord:
    """One call, from its first header to its last byte.

    Args:
        endpoint: The path that was called.
        clock: Seconds, monotonic.

    Attributes:
        id: Names the call in headers, error bodies and the log.
        stages: What is over, by the names of the project's one vocabulary.
        outcome: How it ended: an end reason, an error kind, or `disconnected`.
        deadline: Seconds from its arrival after which its client has given up.
        silence: Seconds without a byte after which it has.
    """

    def __init__(self, endpoint: str, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.id = f"req_{token_hex(12)}"
        self.endpoint = endpoint
        self.tenant = ""
        self.model: str | None = None
        self.stream = False
        self.status: int | None = None
        self.outcome: str | None = None
        self.input_tokens: int | None = None
        self.cache_read: int | None = None
        self.output_tokens: int | None = None
        self.deadline: float | None = None
        self.silence: float | None = None
        self.stages: dict[str, StageTime] = {}
        self._clock = clock
        self._arrived = clock()
        self._shown: set[str] = set()

    def elapsed(self) -> float:
        """Seconds since the call arrived."""
        return self._clock() - self._arrived

    def time_left(self) -> float | None:
        """Seconds until its client gives up; `None`: it never does.

        A whole reply is silent until it is there; a stream says something all the time.
        """
        waits = [self.deadline, None if self.stream else self.silence]
        known = [wait for wait in waits if wait is not None]
        return min(known) - self.elapsed() if known else None

    def note(self, stage: str, start: float, duration: float | None) -> None:
        """Note a stage that is over; `None`: it was never reached."""
        if duration is not None:
            self.stages[stage] = StageTime(start, duration)

    @contextmanager
    def timing(self, stage: str) -> Iterator[None]:
        """Note what the block takes as a stage."""
        start = self.elapsed()
        yield
        self.note(stage, start, self.elapsed() - start)

    def server_timing(self) -> str:
        """The stages that were not shown to the client yet, as `Server-Timing` writes them."""
        new = {name: stage for name, stage in self.stages.items() if name not in self._shown}
        self._shown.update(new)
        return ", ".join(
            f"{name};dur={stage.duration * 1e3:.3f};start={stage.start * 1e3:.3f}"
            for name, stage in new.items()
        )
