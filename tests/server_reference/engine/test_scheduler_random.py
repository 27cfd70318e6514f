"""Schedulers under any order of events, against a model that checks every KV slot."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from server_reference.core import Sequence
from tests.server_reference.engine.simulation import Simulation, a_scheduler, a_sequence


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

    @rule(data=st.data(), mishap=st.sampled_from(["abort", "abort", "poison", "reset"]))
    def something_fails(self, data, mishap):
        running = [one for one in self.scheduler.running.values() if one.num_computed]
        if mishap == "abort" and self.sequences:
            self.scheduler.remove(data.draw(st.sampled_from(self.sequences)))
        if mishap == "poison" and self.model.in_flight:
            computed = [entry.sequence for entry in self.model.in_flight[0][0].scheduled]
            self.model.poison(data.draw(st.sampled_from(computed)))
        elif mishap == "poison" and running:
            self.model.poison(data.draw(st.sampled_from(running)))
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
