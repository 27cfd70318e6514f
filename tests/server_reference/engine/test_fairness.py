"""One tenant floods the engine; another hardly notices. A step lasts one tick."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.server_reference.engine.simulation import Simulation, a_scheduler, a_sequence

QUIET = {
    "short": [(12 * number, 10) for number in range(12)],
    "long": [(40 * number, 200) for number in range(5)],
    "burst": [(0, 10)] * 8,
    "mixed-bursts": [(0, 10), (0, 100), (0, 10), (50, 60), (50, 60)],
    "stream": [(3 * number, 30) for number in range(40)],
}
FLOODS = {
    "short-prompts": {"prompt": 20, "max_tokens": 400, "num_blocks": 400, "count": 120},
    "slots-run-out": {"prompt": 20, "max_tokens": 400, "num_blocks": 900, "count": 120},
    "blocks-run-out": {"prompt": 60, "max_tokens": 700, "num_blocks": 200, "count": 120},
    "long-prompts": {"prompt": 300, "max_tokens": 100, "num_blocks": 400, "count": 40},
}


def ttfts(quiet, *, lookahead, num_blocks, flood=0, prompt=0, max_tokens=0):
    """Steps to the first token of each request of the quiet tenant."""
    scheduler = a_scheduler(
        num_blocks=num_blocks,
        max_num_seqs=16,
        max_step_tokens=64,
        max_prefill_share=32,
        watermark=0.01,
    )
    model = Simulation(scheduler, lookahead)
    model.add(*(a_sequence(n, prompt, max_tokens=max_tokens, tenant="flood") for n in range(flood)))
    for _ in range(30):
        model.step()
    started = {}
    for tick in range(250):
        for number, (at, num_prompt) in enumerate(quiet):
            if at == tick:
                one = a_sequence(1000 + number, num_prompt, max_tokens=8, tenant="quiet")
                started[one.id] = model.now
                model.add(one)
        model.step()
    return [model.first_token[id] - at for id, at in started.items()]


@pytest.mark.parametrize("lookahead", [0, 1])
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("quiet", QUIET.values(), ids=QUIET)
def test_a_flood_at_most_doubles_the_ttft_of_another_tenant(quiet, flood, lookahead):
    flood = dict(flood)
    blocks, count = flood.pop("num_blocks"), flood.pop("count")

    alone = ttfts(quiet, lookahead=lookahead, num_blocks=blocks)
    beside = ttfts(quiet, lookahead=lookahead, num_blocks=blocks, flood=count, **flood)

    assert [late for late, early in zip(beside, alone, strict=True) if late > 2 * early] == []


def test_who_makes_way_runs_a_while_before_it_does_so_again():
    """Else two tenants could take blocks from each other without end (vllm#25538)."""
    scheduler = a_scheduler(num_blocks=100, max_num_seqs=2)
    model = Simulation(scheduler)
    model.add(a_sequence(0, max_tokens=90, tenant="a"), a_sequence(1, max_tokens=90, tenant="a"))
    model.step()
    preempted_at = []

    for number in range(2, 90):
        if number % 3 == 0:
            model.add(a_sequence(number, 2, max_tokens=1, tenant="b"))
        before = scheduler.preemptions
        model.step()
        preempted_at += [model.now] if scheduler.preemptions > before else []

    gaps = [late - early for early, late in pairwise(preempted_at)]
    assert len(preempted_at) > 2
    assert min(gaps) >= 16
