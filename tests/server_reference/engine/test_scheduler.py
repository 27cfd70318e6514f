"""Who computes what in a step. No torch: these are integers."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from server_reference.core import Sequence
from server_reference.engine.scheduler import RefusedError
from tests.server_reference.engine.simulation import Simulation, a_scheduler, a_sequence


def added(scheduler, *sequences):
    for sequence in sequences:
        scheduler.add(sequence)
    return sequences


def advance(scheduler, *, meanwhile=lambda step: None):
    """One step with a model that answers the sequence's length; finished ones leave."""
    step = scheduler.schedule()
    scheduler.check()
    assert {entry.sequence.id for entry in step.scheduled} <= scheduler.running.keys()
    meanwhile(step)
    if step.scheduled:
        scheduler.commit(step)
    for sequence in [entry.sequence for entry in step.scheduled if entry.reaches_target]:
        if len(sequence.output_token_ids) < sequence.params.max_tokens:
            sequence.output_token_ids.append(sequence.target % 3)
        if len(sequence.output_token_ids) == sequence.params.max_tokens:
            scheduler.remove(sequence)
    scheduler.check()
    return step


def shape(step):
    return [(entry.sequence.id, entry.start, entry.num_tokens) for entry in step.scheduled]


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


def test_a_higher_priority_starts_first_among_a_tenants_own():
    scheduler = a_scheduler(max_num_seqs=1)
    added(scheduler, a_sequence(0), a_sequence(1, priority=2), a_sequence(2, priority=1))

    scheduler.schedule()

    assert list(scheduler.running) == ["s1"]


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
    added(scheduler, *(a_sequence(number, 20, max_tokens=number + 1) for number in range(3)))
    started = [sorted(advance(scheduler) and scheduler.running) for _ in range(8)]

    assert started[0] == ["s0", "s1"]
    assert ["s1", "s2"] not in started
    assert ["s2"] in started


def test_beside_decodes_prompts_get_what_the_limit_allows():
    scheduler = a_scheduler()
    added(scheduler, a_sequence(0))
    advance(scheduler)
    added(scheduler, a_sequence(1, 20), a_sequence(2, 20))
    scheduler.prefill_limit = 10

    assert shape(advance(scheduler)) == [("s0", 6, 1), ("s1", 0, 10)]
    assert shape(advance(scheduler)) == [("s0", 7, 1), ("s1", 10, 5), ("s2", 0, 5)]


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


class SchedulerMachine(RuleBasedStateMachine):
    """Any order of all that can happen, in a pool that is much too small."""

    @initialize(
        lookahead=st.sampled_from([0, 1]),
        watermark=st.sampled_from([0.0, 0.2]),
        prefix_caching=st.sampled_from([True, True, True, False]),
        static_batching=st.sampled_from([False, False, False, True]),
        end_every=st.sampled_from([0, 3]),
        limit=st.sampled_from([None, 2]),
    )
    def start(self, lookahead, end_every, limit, **options):
        self.scheduler = a_scheduler(
            num_blocks=9,
            block_size=2,
            max_num_seqs=4,
            max_step_tokens=8,
            max_prefill_share=4,
            **options,
        )
        self.scheduler.prefill_limit = limit
        self.model = Simulation(self.scheduler, lookahead, end_every=end_every)
        self.sequences: list[Sequence] = []

    @rule(
        num_prompt=st.integers(1, 9),
        max_tokens=st.sampled_from([0, 1, 3, 6, 9]),
        token=st.sampled_from([0, 0, 0, 1]),
        tenant=st.sampled_from(["a", "a", "b", "c"]),
        cache_salt=st.sampled_from(["", "", "x"]),
        priority=st.sampled_from([0, 0, 1]),
        expires=st.sampled_from([None] * 7 + [9]),
        start_by=st.sampled_from([None] * 7 + [4]),
        copies=st.integers(1, 4),
    )
    def add(self, num_prompt, *, expires, start_by, copies, **options):
        for _ in range(copies):
            sequence = a_sequence(len(self.sequences), num_prompt, **options)
            now = self.model.now
            sequence.expires_at = None if expires is None else now + expires
            sequence.start_by = None if start_by is None else now + start_by
            self.sequences.append(sequence)
            self.model.add(sequence)

    @rule(count=st.integers(1, 6))
    def step(self, count):
        for _ in range(count):
            self._step()

    @rule(right=st.integers(0, 3))
    def step_with_drafts(self, right):
        self._step(drafts=right)

    def _step(self, **options):
        late = self.scheduler.expire(self.model.now)
        assert all(sequence.row < 0 for sequence, _ in late)
        first = min(self.scheduler.running.values(), key=lambda one: one.arrival, default=None)
        step = self.model.step(**options)
        if first is not None and first in self.scheduler.waiting:
            scheduled = [entry.sequence.arrival for entry in step.scheduled]
            assert min(scheduled) < first.arrival, "who arrived first lost its blocks"
        assert self.scheduler.overflow(1000) == []
        return step

    @rule(data=st.data(), mishap=st.sampled_from(["abort", "abort", "poison", "cancel", "reset"]))
    def something_fails(self, data, mishap):
        running = [one for one in self.scheduler.running.values() if one.num_computed]
        if mishap == "abort" and self.sequences:
            self.scheduler.remove(data.draw(st.sampled_from(self.sequences)))
        if mishap == "poison" and running and not self.model.in_flight:
            self.model.poison(data.draw(st.sampled_from(running)))
        if mishap == "cancel" and (step := self.scheduler.schedule()).scheduled:
            if data.draw(st.booleans()):
                self.scheduler.remove(data.draw(st.sampled_from(step.scheduled)).sequence)
            self.scheduler.cancel(step)
        if mishap == "reset" and data.draw(st.booleans()):
            self.model.reset()

    @invariant()
    def books_balance(self):
        self.scheduler.check()

    def teardown(self):
        if not hasattr(self, "model"):
            return
        left = [*self.scheduler.running.values(), *self.scheduler.waiting]
        work = sum(one.target + one.params.max_tokens + 4 for one in left)
        for _ in range(2 + (1 + len(left)) * work):
            if not self.model.has_work:
                break
            self._step()
        assert not self.model.has_work, "no step brings the last sequences further"
        assert self.scheduler.pool.num_free == self.scheduler.pool.num_blocks


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=150, stateful_step_count=40)


class LongSchedulerMachine(SchedulerMachine):
    """The same with many more examples."""


TestLongSchedulerMachine = pytest.mark.timeout(1800)(
    pytest.mark.long(LongSchedulerMachine.TestCase)
)
TestLongSchedulerMachine.settings = settings(max_examples=10_000, stateful_step_count=40)
