"""What 256 running sequences cost beside the model: schedule, build, stop, detokenize, tell."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import process_time
from typing import Any

from server_reference.config import EngineConfig
from server_reference.processes.frames import Stepped, frame

from .engines import Clock, Running, model_free

__all__ = ["bookkeeping"]


class _Timed:
    """Passes everything on, and adds up the CPU time of some methods."""

    def __init__(self, inner: Any, *names: str) -> None:
        self._inner, self._names = inner, names
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._timing(found) if name in self._names else found

    def _timing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **given: Any) -> Any:
            begun = process_time()
            try:
                return call(*arguments, **given)
            finally:
                self.seconds += process_time() - begun

        return timed


def bookkeeping(*, sequences: int, steps: int, seed: int) -> dict[str, list[float]]:
    """CPU seconds of each step: what builds it, and all but the model and the sampler."""
    draw, clock = random.Random(seed), Clock()
    config = EngineConfig(
        max_num_seqs=sequences,
        max_queued=2 * sequences,
        max_step_tokens=64 * sequences,
        num_blocks=sequences * (64 + steps + 32) // 16 + sequences,
    )
    running = model_free(config, cost=lambda entries: 0.0, clock=clock)
    for _ in range(sequences):
        prompt = [draw.randrange(100, 200) for _ in range(draw.randrange(8, 64))]
        running.add(prompt, steps + sequences, stop=("STOP", "\n\nUser:"))
    running.until_decoding(sequences)
    return _measure(running, steps)


def _measure(running: Running, steps: int) -> dict[str, list[float]]:
    engine = running.engine
    scheduler = engine.scheduler = _Timed(engine.scheduler, "schedule")
    runner = engine._runner
    builder = runner._builder = _Timed(runner._builder, "build")
    launch = engine._runner = _Timed(runner, "launch", "sample")
    found: dict[str, list[float]] = {"schedule and build": [], "without the model": []}
    for _ in range(steps):
        scheduler.seconds = builder.seconds = launch.seconds = 0.0
        begun = process_time()
        frame(Stepped(engine.step(), engine.stats()))
        whole = process_time() - begun
        found["schedule and build"].append(scheduler.seconds + builder.seconds)
        found["without the model"].append(whole - launch.seconds + builder.seconds)
    return found
