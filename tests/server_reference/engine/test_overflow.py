"""Who is refused as one too many: nobody, while no more came than may run and wait."""

from __future__ import annotations

import random

import pytest

from tests.server_reference.engine.simulation import a_scheduler, a_sequence, advance

AMPLE, FEW = 400, 30  # blocks: for all that ever run here, and for some of them


def refusals(seed, num_blocks):
    """Of a random history in which never more come than places are free."""
    draw = random.Random(seed)
    max_num_seqs, max_queued = draw.randint(1, 6), draw.randint(0, 5)
    scheduler = a_scheduler(
        num_blocks=num_blocks,
        max_num_seqs=max_num_seqs,
        max_step_tokens=draw.choice([2 * max_num_seqs, 32, 64]),
    )
    arrivals, refused = iter(range(10_000)), 0
    for _ in range(60):
        free = max_num_seqs + max_queued - len(scheduler.running) - len(scheduler.waiting)
        for _ in range(draw.randint(0, free) if draw.random() < 0.4 else 0):
            scheduler.add(
                a_sequence(
                    next(arrivals),
                    draw.randint(1, 30),
                    max_tokens=draw.randint(1, 12),
                    token=draw.choice([5, None]),  # many have the same prompt
                    tenant=draw.choice("ab"),
                )
            )

        def refuse(step):
            nonlocal refused
            for sequence in scheduler.overflow(max_queued):
                scheduler.remove(sequence)
                refused += 1

        advance(scheduler, meanwhile=refuse)
    return refused


@pytest.mark.parametrize("seed", range(0, 40, 10))
def test_no_more_than_may_run_and_wait_are_all_let_in(seed):
    assert [refusals(seed + more, AMPLE) for more in range(10)] == [0] * 10


def test_where_blocks_are_short_fewer_are():
    assert sum(refusals(seed, FEW) for seed in range(15)) > 0
