"""Priorities, shared prefixes, limits of the queue, and failures in the scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.server_reference.engine.simulation import (
    Simulation,
    a_scheduler,
    a_sequence,
    added,
    advance,
    shape,
)


def test_a_higher_priority_starts_first_among_a_tenants_own():
    scheduler = a_scheduler(max_num_seqs=1)
    added(scheduler, a_sequence(0), a_sequence(1, priority=2), a_sequence(2, priority=1))

    scheduler.schedule()

    assert list(scheduler.running) == ["s1"]


def test_a_lower_priority_makes_room_before_a_higher_one_that_came_later():
    scheduler = a_scheduler(num_blocks=6)
    first, low, high = (a_sequence(n, 8, max_tokens=8, priority=n == 2) for n in range(3))
    added(scheduler, first, low, high)
    advance(scheduler)

    advance(scheduler)

    assert list(scheduler.waiting) == [low]
    assert high.preemptions == 0


def test_a_lower_priority_makes_way_for_another_tenant_first():
    scheduler = a_scheduler(max_num_seqs=3)
    added(scheduler, *(a_sequence(n, max_tokens=9, tenant="a", priority=n == 2) for n in range(3)))
    advance(scheduler)
    added(scheduler, a_sequence(3, tenant="b"))

    advance(scheduler)

    assert list(scheduler.running) == ["s2", "s0", "s3"]


@pytest.mark.parametrize("lookahead", [0, 1])
def test_equal_prompts_compute_their_prefix_once(lookahead):
    """`n` choices are `n` sequences: the others wait for the blocks that the first computes."""
    scheduler = a_scheduler(max_step_tokens=64)
    model = Simulation(scheduler, lookahead)
    copies = [a_sequence(number, 42, max_tokens=1, token=7) for number in range(4)]
    model.add(*copies)

    computed = 0
    while model.has_work:
        computed += model.step().num_tokens

    assert computed == 42 + 3 * 2, "two tokens of 42 lie in no full block"
    assert [sequence.num_cached for sequence in copies] == [0, 40, 40, 40]


def test_who_waits_for_a_block_holds_back_nobody_else():
    scheduler = a_scheduler()
    first, same = a_sequence(0, 20, token=7), a_sequence(1, 20, token=7)
    added(scheduler, first, same, a_sequence(2, 6), a_sequence(3, 20, token=7, cache_salt="x"))

    step = advance(scheduler)

    assert [entry.sequence.id for entry in step.scheduled] == ["s0", "s2", "s3"]
    assert scheduler.waiting.lines == {"t": [same]}


def test_who_cannot_share_a_block_does_not_wait_for_it():
    """The logprobs of a prompt are not in the cache, so that all of it is computed."""
    scheduler = a_scheduler()
    first, told = a_sequence(0, 12, token=7), a_sequence(1, 12, token=7)
    told.params = replace(told.params, prompt_logprobs=0)
    added(scheduler, first, told)

    assert shape(advance(scheduler)) == [("s0", 0, 12), ("s1", 0, 12)]


def test_who_waits_for_a_block_goes_on_when_the_other_is_aborted():
    scheduler = a_scheduler()
    first, same = added(scheduler, a_sequence(0, 30, token=7), a_sequence(1, 30, token=7))
    advance(scheduler)

    scheduler.remove(first)

    assert shape(advance(scheduler)) == [("s1", 16, 14)], "what the first computed is there"
    assert same.num_cached == 16


def test_without_prefix_caching_every_prompt_is_computed():
    scheduler = a_scheduler(prefix_caching=False)
    added(scheduler, a_sequence(0, 8, token=7), a_sequence(1, 8, token=7))

    assert shape(advance(scheduler)) == [("s0", 0, 8), ("s1", 0, 8)]
    assert scheduler.pool.num_cached == 0


def test_static_batching_starts_only_when_nothing_runs():
    scheduler = a_scheduler(static_batching=True, max_num_seqs=2)
    added(
        scheduler,
        *(a_sequence(number, 20, max_tokens=most) for number, most in enumerate([1, 5, 3])),
    )
    computed = [{entry.sequence.id for entry in advance(scheduler).scheduled} for _ in range(8)]

    assert computed == [{"s0", "s1"}] * 2 + [{"s1"}] * 4 + [{"s2"}] * 2


def test_beside_decodes_prompts_get_what_the_limit_allows():
    scheduler = a_scheduler()
    added(scheduler, a_sequence(0))
    advance(scheduler)
    added(scheduler, a_sequence(1, 20), a_sequence(2, 20))
    scheduler.prefill_limit = 10

    assert shape(advance(scheduler)) == [("s0", 6, 1), ("s1", 0, 10)]
    assert shape(advance(scheduler)) == [("s0", 7, 1), ("s1", 10, 5), ("s2", 0, 5)]


def test_without_decodes_no_limit_holds():
    scheduler = a_scheduler()
    added(scheduler, a_sequence(0, 12))
    scheduler.prefill_limit = 5

    assert shape(scheduler.schedule()) == [("s0", 0, 12)]


def expired(scheduler, now):
    return [(sequence.id, reason) for sequence, reason in scheduler.expire(now)]


def test_who_waits_too_long_to_start_is_refused():
    scheduler = a_scheduler(max_num_seqs=1)
    added(scheduler, a_sequence(0, start_by=5.0), a_sequence(1, start_by=7.0))
    advance(scheduler)

    assert expired(scheduler, 6.9) == []
    assert expired(scheduler, 7.0) == [("s1", "refused")]
    assert expired(scheduler, 99.0) == []
    assert list(scheduler.running) == ["s0"]


def test_who_started_and_made_room_is_not_refused_for_waiting():
    """Some of its output is told already."""
    scheduler = a_scheduler(num_blocks=4)
    older, newer = a_sequence(0, 8, max_tokens=8), a_sequence(1, 8, max_tokens=8, start_by=5.0)
    added(scheduler, older, newer)
    advance(scheduler)
    advance(scheduler)

    assert list(scheduler.waiting) == [newer]
    assert expired(scheduler, 9.0) == []


def test_a_deadline_ends_a_sequence_wherever_it_is():
    scheduler = a_scheduler(max_num_seqs=1)
    added(scheduler, a_sequence(0, expires_at=5.0), a_sequence(1, expires_at=4.0))
    advance(scheduler)

    assert expired(scheduler, 4.0) == [("s1", "deadline")]
    assert expired(scheduler, 5.0) == [("s0", "deadline")]
    scheduler.check()
    assert scheduler.pool.num_free == 32


def test_a_failure_without_an_owner_forgets_all_that_was_computed():
    scheduler = a_scheduler(max_num_seqs=2)
    first, second, waits = added(scheduler, *(a_sequence(number) for number in range(3)))
    advance(scheduler)
    scheduler.schedule()

    lost = scheduler.reset()

    scheduler.check()
    assert {sequence.id for sequence in lost} == {"s0", "s1"}
    assert list(scheduler.waiting) == [first, second, waits]
    assert (scheduler.pool.num_free, scheduler.pool.num_cached) == (32, 0)


def test_accepted_drafts_are_published_only_when_they_are_known():
    """Their block's key would be that of fewer tokens."""
    model = Simulation(a_scheduler())
    model.add(a_sequence(0, 6, max_tokens=20))
    model.step()

    step = model.step(drafts=3)

    assert [(entry.num_tokens, entry.num_drafts) for entry in step.scheduled] == [(5, 4)]
    assert model.scheduler.running["s0"].num_computed == 10
    assert model.scheduler.pool.num_cached == 1


def test_no_guess_is_checked_in_whose_place_no_token_may_come():
    """Its slot would lie beyond the context."""
    model = Simulation(a_scheduler())
    model.add(a_sequence(0, 6, max_tokens=3))
    model.step()

    step = model.step(drafts=5)

    assert [entry.num_drafts for entry in step.scheduled] == [1]


def test_nothing_is_preempted_for_a_guess():
    scheduler = a_scheduler(num_blocks=4)
    model = Simulation(scheduler)
    model.add(a_sequence(0, 6, max_tokens=6), a_sequence(1, 7, max_tokens=2))
    model.step()

    step = model.step(drafts=5)

    assert [entry.num_drafts for entry in step.scheduled if entry.num_drafts] == [1]
    assert scheduler.preemptions == 0


@pytest.mark.parametrize("lookahead", [0, 1])
def test_a_pool_for_one_serves_many_one_after_another(lookahead):
    """Blocks that come free a step late must not cost further victims (vllm#25538, #49675)."""
    scheduler = a_scheduler(num_blocks=5, max_num_seqs=4)
    model = Simulation(scheduler, lookahead)
    sequences = [a_sequence(number, 6, max_tokens=12) for number in range(4)]
    model.add(*sequences)
    while model.has_work:
        model.step()

    assert len(model.finished) == 4
    assert scheduler.preemptions <= 6
    assert scheduler.steps <= 4 * 20


def test_one_that_fits_to_the_last_token_starts():
    """Rounded up to blocks it must not seem too big, with a watermark on top (sglang#28530)."""
    scheduler = a_scheduler(num_blocks=8, watermark=0.5)
    model = Simulation(scheduler)
    model.add(a_sequence(0, 10, max_tokens=22))
    while model.has_work:
        model.step()

    assert len(model.finished) == 1


def test_an_idle_engine_holds_nothing():
    """However much was shared and preempted, the counts do not drift (sglang#35270)."""
    scheduler = a_scheduler(num_blocks=12, block_size=4)
    model = Simulation(scheduler, lookahead=1, end_every=3)
    model.add(*(a_sequence(n, 5 + n % 9, max_tokens=n % 7, token=n % 2) for n in range(40)))
    while model.has_work:
        model.step()

    pool = scheduler.pool
    assert (pool.num_free, len(model.finished)) == (pool.num_blocks, 40)
    assert not scheduler.slots
