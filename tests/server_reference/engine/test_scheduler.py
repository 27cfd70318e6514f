"""Who computes what in a step. No torch: these are integers."""

from __future__ import annotations

import pytest

from server_reference.engine.scheduler import RefusedError
from tests.server_reference.engine.simulation import (
    a_scheduler,
    a_sequence,
    added,
    advance,
    shape,
)


def test_a_running_decode_goes_before_a_new_prompt():
    """A prompt that arrives must not stop the tokens of others (sglang#32549)."""
    scheduler = a_scheduler()
    added(scheduler, a_sequence(0))
    advance(scheduler)
    added(scheduler, a_sequence(1))

    step = scheduler.schedule()

    assert shape(step) == [("s0", 6, 1), ("s1", 0, 6)]


def test_a_long_prompt_is_computed_in_chunks_beside_a_decode():
    scheduler = a_scheduler(max_prefill_share=8)
    added(scheduler, a_sequence(0), a_sequence(1, 20))
    advance(scheduler)

    assert shape(advance(scheduler)) == [("s0", 6, 1), ("s1", 8, 8)]
    assert shape(advance(scheduler)) == [("s0", 7, 1), ("s1", 16, 4)]


def test_guesses_are_no_prompt_tokens():
    """What a step beside a prompt takes is held against what its decodes take alone."""
    scheduler = a_scheduler(max_prefill_share=8)
    guessing = a_sequence(0)
    added(scheduler, guessing, a_sequence(1, 20))
    advance(scheduler)
    guessing.drafts = [7, 7]

    step = advance(scheduler)

    assert shape(step) == [("s0", 6, 3), ("s1", 8, 8)]
    assert (step.num_decodes, step.num_prefill_tokens) == (1, 8)


def test_a_long_prompt_leaves_a_share_of_the_step_to_others():
    """One long prompt must not hold back all that wait (vllm#10774)."""
    scheduler = a_scheduler(max_step_tokens=16, max_prefill_share=10)

    added(scheduler, a_sequence(0, 90), a_sequence(1, 6))

    assert shape(scheduler.schedule()) == [("s0", 0, 10), ("s1", 0, 6)]


def test_a_step_stays_within_its_token_budget():
    scheduler = a_scheduler(max_step_tokens=10, max_prefill_share=10)

    added(scheduler, *(a_sequence(arrival) for arrival in range(4)))

    assert shape(scheduler.schedule()) == [("s0", 0, 6), ("s1", 0, 4)]


def test_no_more_sequences_run_than_the_limit():
    scheduler = a_scheduler(max_num_seqs=2)

    added(scheduler, *(a_sequence(arrival) for arrival in range(3)))
    scheduler.schedule()

    assert list(scheduler.running) == ["s0", "s1"]
    assert [sequence.id for sequence in scheduler.waiting] == ["s2"]


def test_a_sequence_starts_only_when_all_of_its_prompt_fits():
    scheduler = a_scheduler(num_blocks=8, max_prefill_share=4)
    added(scheduler, a_sequence(0, 16), a_sequence(1, 20, max_tokens=1))

    step = scheduler.schedule()

    assert shape(step) == [("s0", 0, 4)], "s0 is promised 4 blocks of 8, s1 needs 5"


def test_when_blocks_run_out_the_latest_arrival_makes_room():
    scheduler = a_scheduler(num_blocks=4)
    older, newer = added(scheduler, a_sequence(0, 8, max_tokens=8), a_sequence(1, 8, max_tokens=8))
    advance(scheduler)

    step = advance(scheduler)

    assert list(scheduler.waiting) == [newer]
    assert shape(step) == [("s0", 8, 1)]
    assert (older.preemptions, newer.preemptions) == (0, 1)


def test_when_blocks_run_out_the_tenant_most_above_its_share_makes_room():
    scheduler = a_scheduler(num_blocks=7)
    many = [a_sequence(number, 8, max_tokens=8, tenant="many") for number in (0, 1)]
    few = a_sequence(2, 9, max_tokens=8, tenant="few")
    added(scheduler, *many, few)
    advance(scheduler)

    advance(scheduler)

    assert list(scheduler.waiting) == [many[1]]
    assert (scheduler.preemptions, few.preemptions) == (1, 0)


def test_a_decode_gives_back_its_place_in_the_step_when_it_makes_room():
    """The prompt came first, but the decode was scheduled before it."""
    scheduler = a_scheduler(num_blocks=6, max_prefill_share=4)
    _, decode = added(scheduler, a_sequence(0, 16), a_sequence(1, 7, max_tokens=8))
    for _ in range(3):
        advance(scheduler)

    step = advance(scheduler)

    assert shape(step) == [("s0", 12, 4)]
    assert list(scheduler.waiting) == [decode]


def test_a_preempted_sequence_goes_back_before_those_that_came_after_it():
    """It has waited already (vllm#41951)."""
    scheduler = a_scheduler(num_blocks=4, max_num_seqs=2)
    added(scheduler, a_sequence(0, 8, max_tokens=8), a_sequence(1, 8, max_tokens=8))
    advance(scheduler)
    added(scheduler, a_sequence(2, 2))

    advance(scheduler)

    assert [sequence.id for sequence in scheduler.waiting] == ["s1", "s2"]


def test_nothing_is_admitted_in_a_step_that_preempted():
    scheduler = a_scheduler(num_blocks=5)
    added(scheduler, a_sequence(0, 8, max_tokens=8), a_sequence(1, 12, max_tokens=8))
    advance(scheduler)
    added(scheduler, a_sequence(2, 1, max_tokens=1))

    step = advance(scheduler)

    assert shape(step) == [("s0", 8, 1)]
    assert scheduler.pool.num_free == 2


def test_a_preempted_sequence_finds_its_own_blocks_and_computes_the_rest():
    """Counting before the prefix hit broke others here (nano-vllm#211, #233)."""
    scheduler = a_scheduler(num_blocks=4)
    older, newer = added(scheduler, a_sequence(0, 8, max_tokens=2), a_sequence(1, 8, max_tokens=4))
    advance(scheduler)
    advance(scheduler)

    step = advance(scheduler)

    assert shape(step) == [("s1", 4, 5)], "4 of its 9 tokens lie in a block nobody took"
    assert newer.output_token_ids[0] == 8 % 3
    assert len(older.output_token_ids) == 2


def test_finding_its_own_blocks_again_is_not_counted_as_cached():
    scheduler = a_scheduler(num_blocks=4)
    _, newer = added(scheduler, a_sequence(0, 8, max_tokens=2), a_sequence(1, 8, max_tokens=4))
    for _ in range(3):
        advance(scheduler)

    assert newer.preemptions == 1
    assert newer.num_cached == 0
    assert scheduler.prefix_tokens_hit == 0


@pytest.mark.parametrize("num_prompt", [8, 16])
def test_a_fully_cached_prompt_still_computes_a_token(num_prompt):
    """Zero query tokens have no logits (vllm#30320, nano-vllm#144)."""
    scheduler = a_scheduler()
    added(scheduler, a_sequence(0, num_prompt, max_tokens=1, token=7))
    advance(scheduler)
    (again,) = added(scheduler, a_sequence(1, num_prompt, max_tokens=1, token=7))

    step = scheduler.schedule()

    assert shape(step) == [("s1", num_prompt - 4, 4)]
    assert again.num_cached == num_prompt - 4


def test_half_of_a_step_is_left_to_those_that_start():
    """Decodes alone never fill a step, however many sequences may run."""
    scheduler = a_scheduler(max_step_tokens=4, max_prefill_share=2)
    added(scheduler, a_sequence(0, 5), a_sequence(1, 1), a_sequence(2, 1))
    advance(scheduler)

    assert shape(advance(scheduler)) == [("s1", 1, 1), ("s0", 2, 2)]
    assert [sequence.id for sequence in scheduler.waiting] == ["s2"]


@pytest.mark.parametrize(
    ("num_prompt", "max_tokens", "says"),
    [
        pytest.param(9, 0, "9 prompt tokens .* exceed the 8 tokens", id="prompt"),
        pytest.param(8, 1, "max_tokens=1 exceed the 8 tokens", id="prompt-fills-all"),
        pytest.param(4, 5, "lower max_tokens to 4", id="max-tokens"),
        pytest.param(0, 1, "at least 1 token", id="empty"),
        pytest.param(1, -1, "at least 0, not -1", id="negative"),
    ],
)
def test_what_can_never_run_is_refused_at_once(num_prompt, max_tokens, says):
    """Admitted, it would wait for ever and freeze the queue (vllm#35541, #39734)."""
    scheduler = a_scheduler(num_blocks=2, block_size=4)

    with pytest.raises(RefusedError, match=says):
        scheduler.add(a_sequence(0, num_prompt, max_tokens=max_tokens))

    assert list(scheduler.waiting) == []


def test_the_context_limits_a_sequence_below_the_pool():
    scheduler = a_scheduler(capacity=10)

    with pytest.raises(RefusedError, match="the 10 tokens"):
        scheduler.add(a_sequence(0, 8, max_tokens=3))


def test_a_sequence_that_needs_the_whole_pool_runs():
    scheduler = a_scheduler(num_blocks=3)
    (sequence,) = added(scheduler, a_sequence(0, 4, max_tokens=8))

    for _ in range(8):
        advance(scheduler)

    assert len(sequence.output_token_ids) == 8
    assert scheduler.pool.num_free == 3


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(0, id="queued"),
        pytest.param(1, id="mid-prefill"),
        pytest.param(5, id="decoding"),
    ],
)
def test_an_abort_frees_all_blocks_at_once(steps):
    scheduler = a_scheduler(max_prefill_share=4)
    (sequence,) = added(scheduler, a_sequence(0, 14, max_tokens=9))
    for _ in range(steps):
        advance(scheduler)

    scheduler.remove(sequence)

    scheduler.check()
    assert scheduler.pool.num_free == 32
    assert not scheduler.running
    assert not scheduler.waiting


def test_an_abort_of_a_preempted_sequence_leaves_the_others_alone():
    scheduler = a_scheduler(num_blocks=4)
    older, newer = added(scheduler, a_sequence(0, 8, max_tokens=8), a_sequence(1, 8, max_tokens=8))
    advance(scheduler)
    advance(scheduler)

    scheduler.remove(newer)

    scheduler.check()
    assert list(scheduler.running.values()) == [older]
    assert list(scheduler.waiting) == []


def test_the_newest_that_wait_beyond_the_limit_overflow():
    scheduler = a_scheduler(max_num_seqs=1)
    added(scheduler, *(a_sequence(arrival) for arrival in range(4)))

    advance(scheduler)

    assert [sequence.arrival for sequence in scheduler.overflow(2)] == [3]
    assert scheduler.overflow(3) == []


@pytest.mark.parametrize(
    ("token", "budget"),
    [
        pytest.param(5, 64, id="one-computes-what-all-share"),
        pytest.param(None, 8, id="one-takes-all-of-a-step"),
    ],
)
def test_those_that_a_place_is_free_for_do_not_overflow(token, budget):
    """Five at once are no more than three that run and two that wait, though one starts first."""
    scheduler = a_scheduler(max_num_seqs=3, max_step_tokens=budget)
    added(scheduler, *(a_sequence(arrival, 9, token=token) for arrival in range(5)))

    scheduler.schedule()

    assert [len(scheduler.running), len(scheduler.waiting)] == [1, 4]
    assert scheduler.overflow(2) == []
    assert [sequence.arrival for sequence in scheduler.overflow(1)] == [4]


def test_in_a_static_batch_that_runs_no_place_is_free():
    scheduler = a_scheduler(max_num_seqs=3, static_batching=True)
    added(scheduler, a_sequence(0))
    advance(scheduler)
    added(scheduler, *(a_sequence(arrival) for arrival in range(1, 4)))

    scheduler.schedule()

    assert [sequence.arrival for sequence in scheduler.overflow(1)] == [2, 3]


def test_a_preempted_sequence_neither_overflows_nor_takes_anothers_place():
    scheduler = a_scheduler(num_blocks=4)
    added(scheduler, a_sequence(0, 8), a_sequence(1, 8), a_sequence(2), a_sequence(3))
    while not scheduler.preemptions:
        advance(scheduler)

    assert [sequence.arrival for sequence in scheduler.waiting] == [1, 2, 3]
    assert [sequence.arrival for sequence in scheduler.overflow(1)] == [3]


def test_a_sequence_removed_during_a_step_is_passed_over():
    """Its late result must not end the engine (LMCache#4185)."""
    scheduler = a_scheduler()
    gone, stays = added(scheduler, a_sequence(0), a_sequence(1))
    step = scheduler.schedule()

    scheduler.remove(gone)
    scheduler.commit(step)

    scheduler.check()
    assert (gone.num_computed, stays.num_computed) == (0, 6)
