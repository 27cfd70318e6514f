"""The real scheduler on a clock of measured step costs: batching, arrivals, room in the pool."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from server_reference.config import EngineConfig

from ..engine_peers.workload import lengths
from .engines import Clock, StepCost, model_free

__all__ = ["batching", "goodput", "unused_slots"]


def batching(
    *,
    cost: dict[str, Any],
    requests: int,
    slots: int,
    mu: float,
    sigma: float,
    most: int,
    seed: int,
) -> dict[str, dict[str, float]]:
    """Seconds and steps for the same requests, continuously and batch by batch.

    A sequence that has ended leaves its batch's steps cheaper. Of a batch of one shape, as most
    engines had them, its row is computed on to the end.
    """
    each = StepCost(**cost)

    def one_shape(entries: list[tuple[int, int]]) -> float:
        return each(entries + [(1, 0)] * (slots - len(entries)))

    found = {}
    ways = {"continuous": (False, each), "static": (True, each), "one shape": (True, one_shape)}
    for name, (is_static, step_cost) in ways.items():
        draw, clock = random.Random(seed), Clock()
        config = EngineConfig(
            max_num_seqs=slots,
            static_batching=is_static,
            max_queued=requests,
            num_blocks=slots * (most + 48) // 16,
        )
        running = model_free(config, cost=step_cost, clock=clock)
        for _ in range(requests):
            output = lengths(draw, mu=mu, sigma=sigma, most=most)
            running.add(_prompt(draw, 32), output)
        while running.engine.has_work:
            running.step()
        found[name] = {"seconds": clock.now, "steps": running.engine.stats().steps}
    return found


def unused_slots(*, slots: int, mean: int, sigma: float, steps: int, seed: int) -> float:
    """Share of the slots in blocks that running sequences hold that has no token in it."""
    draw, clock = random.Random(seed), Clock()
    half = mean // 2
    mu = _mu(half, sigma)
    config = EngineConfig(
        max_num_seqs=slots, max_queued=4 * slots, num_blocks=slots * 8 * mean // 16
    )
    running = model_free(config, cost=lambda entries: 1.0, clock=clock)

    def add() -> None:
        prompt = lengths(draw, mu=mu, sigma=sigma, most=4 * half)
        running.add(_prompt(draw, prompt), lengths(draw, mu=mu, sigma=sigma, most=4 * half))

    for _ in range(2 * slots):
        add()
    held = used = 0
    for number in range(2 * steps):
        for update in running.step():
            if update.finish_reason is not None:
                add()
        if number >= steps:  # the loop has settled
            for sequence in running.engine.scheduler.running.values():
                held += len(sequence.block_table) * config.block_size
                used += sequence.num_computed
    return 1 - used / held


def goodput(
    *,
    cost: dict[str, Any],
    rates: list[float],
    seconds: float,
    ttft: float,
    itl: float,
    mean: int,
    sigma: float,
    most: int,
    seed: int,
) -> dict[str, list[float]]:
    """Requests a second that meet both limits, by rate of arrival and way of batching.

    Arrivals are Poisson. A request meets the limits whose first token comes within `ttft` of
    its arrival, and whose longest gap between two tokens is at most `itl`, both in seconds.
    """
    base = EngineConfig(max_num_seqs=32, max_queued=1 << 16, num_blocks=32 * (2 * most + 16) // 16)
    unpaced = replace(base, prefill_stretch=None)
    # Prompts whole, as before chunked prefill: a step has room for any.
    whole = replace(unpaced, max_prefill_share=2 * most, max_step_tokens=4 * most)
    ways = {
        "continuous": base,
        "continuous, prompts in large pieces": unpaced,
        "continuous, prompts whole": whole,
        "static batches": replace(base, static_batching=True),
    }
    found: dict[str, list[float]] = {name: [] for name in ("all that arrive", *ways)}
    for rate in rates:
        arrivals = list(_arrivals(rate, seconds, mean=mean, sigma=sigma, most=most, seed=seed))
        found["all that arrive"].append(len(arrivals) / seconds)
        for name, config in ways.items():
            good = _met(config, StepCost(**cost), arrivals, ttft=ttft, itl=itl)
            found[name].append(good / seconds)
    return found


def _arrivals(
    rate: float, seconds: float, *, mean: int, sigma: float, most: int, seed: int
) -> Iterator[tuple[float, list[int], int]]:
    """When each request comes, its prompt, and the length of its output."""
    draw, at, mu = random.Random(seed), 0.0, _mu(mean, sigma)
    while (at := at + draw.expovariate(rate)) < seconds:
        prompt = _prompt(draw, lengths(draw, mu=mu, sigma=sigma, most=most))
        yield at, prompt, lengths(draw, mu=mu, sigma=sigma, most=most)


def _met(
    config: EngineConfig,
    cost: StepCost,
    arrivals: list[tuple[float, list[int], int]],
    *,
    ttft: float,
    itl: float,
) -> int:
    """How many of them met the limits."""
    clock = Clock()
    running = model_free(config, cost=cost, clock=clock)
    latest: dict[str, float] = {}
    firsts: set[str] = set()
    late: set[str] = set()
    at = 0
    while at < len(arrivals) or running.engine.has_work:
        if not running.engine.has_work:
            clock.now = max(clock.now, arrivals[at][0])
        while at < len(arrivals) and arrivals[at][0] <= clock.now:
            came, prompt, output = arrivals[at]
            latest[running.add(prompt, output)] = came
            at += 1
        for update in running.step():
            limit = itl if update.id in firsts else ttft
            firsts.add(update.id)
            if clock.now - latest[update.id] > limit:
                late.add(update.id)
            latest[update.id] = clock.now
    return len(arrivals) - len(late)


def _mu(mean: int, sigma: float) -> float:
    return math.log(mean) - sigma * sigma / 2


def _prompt(draw: random.Random, length: int) -> list[int]:
    return [draw.randrange(100, 200) for _ in range(length)]
