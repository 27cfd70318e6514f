"""A long prompt beside decodes, on a clock of step costs: the scheduler is real, time is not."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.engine_own.engines import Clock, model_free
from server_reference.config import EngineConfig

TOKEN, CONTEXT, PAIR, STEP = 0.001, 6e-6, 1e-6, 0.010  # seconds, as on one core


def cost(entries):
    """What a step takes whose entries have so many new tokens and so long a context."""
    return STEP + sum(
        new * TOKEN + (CONTEXT * context if new == 1 else PAIR * new * (context - new / 2))
        for new, context in entries
    )


def a_run(lengths, num_prompt, *, cost=cost):
    """Gaps between the tokens of outputs during which a prompt comes, and when it was read."""
    clock = Clock()
    config = EngineConfig(max_num_seqs=len(lengths) + 1, num_blocks=1200)
    running = model_free(config, cost=cost, clock=clock)
    others = {running.add([100 + n] * 64, length) for n, length in enumerate(lengths)}
    running.until_decoding(len(lengths))
    for _ in range(20):
        running.step()
    prompt, first, at = running.add([7] * num_prompt, 1), None, [clock.now]
    while running.engine.has_work:
        ids = {update.id for update in running.step()}
        if prompt in ids:
            first = clock.now
        if ids & others:
            at.append(clock.now)
    return [later - earlier for earlier, later in pairwise(at)], first


def test_a_long_prompt_hardly_delays_decodes():
    """The later of its tokens are dearer by far, for all those that they attend to."""
    beside, _ = a_run([900] * 8, 4000)
    alone, _ = a_run([900] * 8, 1)

    stretched = [gap / one for gap, one in zip(beside, alone, strict=False)]
    assert 1.6 < max(stretched) < 2


def test_a_long_prompt_goes_on_however_slow_it_is():
    _, first = a_run([900], 800, cost=lambda entries: cost(entries) * len(entries) ** 8)

    assert first is not None


def test_a_prompt_is_read_at_full_speed_once_it_runs_alone():
    _, beside = a_run([40] * 8, 3000)
    _, alone = a_run([21], 3000)

    assert beside < 1.5 * alone


def test_what_decodes_take_stays_known_although_every_step_has_a_prompt():
    """Once seven of eight outputs have ended, steps are as short as the last one's."""
    gaps, _ = a_run([60] * 7 + [400], 4000)

    assert max(gaps[100:300]) < 2 * cost([(1, 384)])
