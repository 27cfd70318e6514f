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
from server_reference.roofline import Roofline

from ..engine_peers.workload import lengths
from .engines import Clock, Running, model_free

__all__ = ["Arrival", "Fleet", "Served", "poisson", "read_trace", "summary"]

_BLOCK = 16
_MOST_BLOCKS = 1 << 16  # a million tokens: more is not filled, and takes long to make


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

    Raises:
        OSError: It cannot be read.
        ValueError: A line is not as in those.
    """
    rows = []
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                at = datetime.fromisoformat(row["TIMESTAMP"].strip()[:26])
                rows.append((at, int(row["ContextTokens"]), int(row["GeneratedTokens"])))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise ValueError(
                    f"line {number} of {path} has no TIMESTAMP, ContextTokens and GeneratedTokens "
                    f"as the Azure traces have: {error!r}"
                ) from error
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
        given: dict[str, Any] = {
            "max_num_seqs": 256,
            "max_step_tokens": 2048,
            "max_queued": 1 << 20,
            "num_blocks": min(roofline.room() // _BLOCK, _MOST_BLOCKS),
            "prefix_caching": False,  # no two prompts are alike here
        }
        config = EngineConfig(**given | limits)
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


def summary(
    served: Sequence[Served], gaps: Sequence[float], *, ttft: float, itl: float, skip: float = 0.0
) -> dict[str, float]:
    """Rates, a second, and latencies, in seconds.

    Args:
        gaps: Between tokens, of all requests.
        ttft: Most that a good request's may be.
        itl: Likewise of its longest gap.
        skip: Seconds at the beginning, while the fleet fills up, whose arrivals are not counted.
    """
    counted = [one for one in served if one.arrival.at >= skip]
    seconds = max(one.arrival.at for one in served) - skip
    firsts = [one.ttft for one in counted if one.ttft is not None]
    good = [
        one for one in counted if one.ttft is not None and one.ttft <= ttft and one.longest <= itl
    ]
    tokens, end = sum(one.arrival.output for one in served), max(one.last for one in served)
    return {
        "requests/s": len(counted) / seconds,
        "goodput": len(good) / seconds,
        "tokens/s": tokens / end,
        "TTFT p50": _percentile(firsts, 0.5),
        "TTFT p99": _percentile(firsts, 0.99),
        "ITL p50": _percentile(gaps, 0.5),
        "ITL p99": _percentile(gaps, 0.99),
    }


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
