"""Many engines on a clock: the real schedulers, and steps as long as a roofline says."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from server_reference.config import EngineConfig
from server_reference.public_models import PUBLIC_MODELS
from server_reference.roofline import CHIPS, Roofline

from ..engine_peers.workload import lengths
from .engines import Clock, Running, model_free

__all__ = ["Arrival", "Fleet", "Served", "poisson", "read_trace", "serve"]

_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request: when it comes, in seconds, and how many tokens its prompt and output have."""

    at: float
    prompt: int
    output: int


def poisson(
    *, rate: float, seconds: float, prompt: int, output: int, sigma: float, most: int, seed: int
) -> list[Arrival]:
    """Requests at random times, `rate` a second; lengths are lognormal of these means."""
    draw, at, found = random.Random(seed), 0.0, []
    prompt_mu, output_mu = (math.log(mean) - sigma * sigma / 2 for mean in (prompt, output))
    while (at := at + draw.expovariate(rate)) < seconds:
        own = lengths(draw, mu=prompt_mu, sigma=sigma, most=most)
        found.append(Arrival(at, own, lengths(draw, mu=output_mu, sigma=sigma, most=most)))
    return found


def read_trace(path: Path, *, speed: float = 1.0) -> list[Arrival]:
    """Requests from a CSV file with the columns of the public Azure LLM inference traces.

    Args:
        speed: How many times as fast they come.
    """
    with path.open(newline="") as file:
        rows = [
            (
                datetime.fromisoformat(row["TIMESTAMP"].strip()[:26]),
                int(row["ContextTokens"]),
                int(row["GeneratedTokens"]),
            )
            for row in csv.DictReader(file)
        ]
    rows = [row for row in sorted(rows) if row[1] > 0 and row[2] > 0]
    return [
        Arrival((at - rows[0][0]).total_seconds() / speed, prompt, output)
        for at, prompt, output in rows
    ]


@dataclass(slots=True)
class Served:
    """What became of one request.

    Args:
        ttft: Seconds from its arrival to its first token.
        longest: The longest gap between two of its tokens, in seconds.
    """

    arrival: Arrival
    last: float
    ttft: float | None = None
    longest: float = 0.0


@dataclass(slots=True)
class _Engine:
    """An engine, its own clock, and the requests that it has."""

    running: Running
    clock: Clock
    served: dict[str, Served] = field(default_factory=dict)

    def step(self, gaps: list[float]) -> None:
        for update in self.running.step():
            one = self.served[update.id]
            gap = self.clock.now - one.last
            if one.ttft is None:
                one.ttft = gap
            else:
                gaps.append(gap)
                one.longest = max(one.longest, gap)
            one.last = self.clock.now
            if update.finish_reason is not None:
                del self.served[update.id]


class Fleet:
    """Engines of one model, each on a chip of its own; a request goes where the fewest are.

    Args:
        roofline: Of the model on such a chip, which may be one at a share of its best.
        limits: Fields of `EngineConfig`.
    """

    def __init__(self, roofline: Roofline, *, gpus: int, **limits: Any) -> None:
        given: dict[str, Any] = {"max_num_seqs": 256, "max_step_tokens": 2048} | limits
        config = EngineConfig(
            num_blocks=min(roofline.room() // _BLOCK, 1 << 20),
            max_queued=1 << 20,
            prefix_caching=False,  # no two prompts are alike here
            **given,
        )
        self._engines = []
        for _ in range(gpus):
            clock = Clock()
            running = model_free(config, cost=roofline.seconds, clock=clock)
            self._engines.append(_Engine(running, clock))
        self.gaps: list[float] = []

    def serve(self, arrivals: Iterable[Arrival]) -> list[Served]:
        """All of them, to their last tokens."""
        found: list[Served] = []
        for arrival in arrivals:
            # Every engine's next step begins before or after this arrival, which it then sees.
            while (engine := self._next()) is not None and engine.clock.now < arrival.at:
                engine.step(self.gaps)
            found.append(self._admit(arrival))
        while (engine := self._next()) is not None:
            engine.step(self.gaps)
        return found

    def _next(self) -> _Engine | None:
        busy = [engine for engine in self._engines if engine.running.engine.has_work]
        return min(busy, key=lambda engine: engine.clock.now, default=None)

    def _admit(self, arrival: Arrival) -> Served:
        engine = min(self._engines, key=lambda engine: len(engine.served))
        engine.clock.now = max(engine.clock.now, arrival.at)
        served = Served(arrival, last=arrival.at)
        engine.served[engine.running.add([100] * arrival.prompt, arrival.output)] = served
        return served


def serve(
    *,
    arrivals: Sequence[Sequence[float]],
    model: str,
    chip: str,
    gpus: int,
    bandwidth: float,
    operations: float,
    ttft: float,
    itl: float,
    skip: float = 0.0,
    **limits: Any,
) -> dict[str, float]:
    """Latencies and goodput of a fleet.

    Args:
        arrivals: The fields of an `Arrival` each.
        bandwidth: Share of the chip's bandwidth that its kernels attain.
        operations: Likewise of its operations.
        ttft: Most that a good request's may be, in seconds.
        itl: Likewise of its longest gap.
        skip: Seconds at the beginning, while the fleet fills up, that are not counted.
    """
    slower = CHIPS[chip].at(bandwidth=bandwidth, operations=operations)
    fleet = Fleet(Roofline(config=PUBLIC_MODELS[model], chip=slower), gpus=gpus, **limits)
    every = fleet.serve(Arrival(at, int(prompt), int(output)) for at, prompt, output in arrivals)
    counted = [one for one in every if one.arrival.at >= skip]
    seconds = max(one.arrival.at for one in every) - skip
    firsts = [one.ttft or 0.0 for one in counted]
    good = [one for one in counted if (one.ttft or 0.0) <= ttft and one.longest <= itl]
    return {
        "requests": len(counted),
        "rate": len(counted) / seconds,
        "goodput": len(good) / seconds,
        "output tokens/s": sum(one.arrival.output for one in every)
        / max(one.last for one in every),
        "TTFT p50": _percentile(firsts, 0.5),
        "TTFT p99": _percentile(firsts, 0.99),
        "ITL p50": _percentile(fleet.gaps, 0.5),
        "ITL p99": _percentile(fleet.gaps, 0.99),
    }


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
