"""Decide which sequences compute how many tokens in the next step.

There are no phases. A sequence has a number of computed tokens and a target; one token
budget per step closes the gaps: decodes first (a gap of one), then, tenants in turn,
prefills in chunks and sequences that wait. Arithmetic on integers, without torch.
"""

from __future__ import annotations

import math

from ..core import FinishReason, Sequence, StepRecord
from ..kv.block_pool import BlockPool
from .admission import PASSED_BY_OWN, Admission
from .books import Books
from .fair_queue import Turns
from .step import Plan, Scheduled, Step
from .trace import Trace

__all__ = ["RefusedError", "Scheduled", "Scheduler", "Step"]

_MOST_PASSED = 16  # that cannot start, in one step over all lines, but one of each


class RefusedError(ValueError):
    """The sequence could never run, however long it waited."""


class Scheduler(Books):
    """Runs sequences of all tenants in fair shares, as many as the pool and the limits hold.

    It cannot livelock. `add` refuses what would not fit even alone, and of those that run,
    who arrived first never loses its blocks. So one sequence after another finishes: only one
    that arrived still earlier can take that place, and there are ever fewer of those.

    Args:
        pool: The KV blocks.
        block_size: Tokens per block.
        capacity: Tokens that one sequence may have, prompt and output.
        max_num_seqs: Sequences that run at once, if a step has two tokens for each: so
            half of a step's tokens at least are for those that start.
        max_step_tokens: Tokens of one step.
        max_prefill_share: Tokens of one step for one sequence.
        watermark: Share of the blocks that stays free when one starts beside others.
        prefix_caching: Whether blocks are shared.
        static_batching: Start sequences only when none runs, then as many as fit.
        traced_steps: Steps that `explain` remembers.

    Attributes:
        prefill_limit: Prompt tokens of a step with decodes; `None` sets no limit.
    """

    def __init__(
        self,
        pool: BlockPool,
        *,
        block_size: int,
        capacity: int,
        max_num_seqs: int,
        max_step_tokens: int,
        max_prefill_share: int,
        watermark: float = 0.0,
        prefix_caching: bool = True,
        static_batching: bool = False,
        traced_steps: int = 0,
    ) -> None:
        super().__init__(
            pool,
            block_size=block_size,
            max_num_seqs=max_num_seqs,
            prefix_caching=prefix_caching,
        )
        self.capacity = min(capacity, pool.num_blocks * block_size)
        self.max_running = min(max_num_seqs, max(1, max_step_tokens // 2))
        self.max_step_tokens = max_step_tokens
        self.max_prefill_share = max_prefill_share
        self.prefill_limit: int | None = None
        self._is_static = static_batching
        self._turns = Turns(block_size)
        watermark_blocks = int(watermark * pool.num_blocks)
        self._admission = Admission(self, max_running=self.max_running, watermark=watermark_blocks)
        self._next_alarm = math.inf
        self._trace = Trace(traced_steps)
        self._now = 0.0
        self._num_free_slots = 0
        self.steps = 0

    def add(self, sequence: Sequence) -> None:
        """Put a sequence into the waiting queue, at its place.

        Raises:
            RefusedError: Prompt and `max_tokens` exceed the context or the whole pool.
        """
        num_prompt, max_tokens = len(sequence.prompt_token_ids), sequence.params.max_tokens
        if num_prompt < 1:
            raise RefusedError("a prompt needs at least 1 token, this one has 0")
        if max_tokens < 0:
            raise RefusedError(f"max_tokens must be at least 0, not {max_tokens}")
        if num_prompt + max_tokens > self.capacity:
            left = self.capacity - num_prompt
            advice = f"lower max_tokens to {left}" if left > 0 else "shorten the prompt"
            raise RefusedError(
                f"{num_prompt} prompt tokens and max_tokens={max_tokens} exceed the "
                f"{self.capacity} tokens that one sequence may have; {advice}"
            )
        self.waiting.add(sequence)
        alarms = [at for at in (sequence.start_by, sequence.expires_at) if at is not None]
        self._next_alarm = min([self._next_alarm, *alarms])

    def expire(self, now: float) -> list[tuple[Sequence, FinishReason]]:
        """Take out the sequences whose `start_by` or `expires_at` has come; before `schedule`."""
        self._now = now
        ended: list[tuple[Sequence, FinishReason]] = []
        if now < self._next_alarm:
            return ended
        self._next_alarm = math.inf
        for sequence in [*self.running.values(), *self.waiting]:
            is_new = sequence.row < 0 and sequence.preemptions == 0
            start_by = sequence.start_by if is_new and sequence.start_by is not None else math.inf
            expires_at = math.inf if sequence.expires_at is None else sequence.expires_at
            if min(start_by, expires_at) > now:
                self._next_alarm = min(self._next_alarm, start_by, expires_at)
            else:
                self.remove(sequence)
                ended.append((sequence, "deadline" if expires_at <= now else "refused"))
        return ended

    def schedule(self) -> Step:
        """Choose the next step's work and take the blocks that it writes."""
        plan = Plan(self.max_step_tokens)
        prefills, drafting = self._decode(plan)
        num_decodes, budget = len(plan.entries), plan.budget
        if prefills or self.waiting.lines:
            self._prefill(prefills, plan)
        is_held = self._is_static and self.running
        is_full = plan.is_short or self._admission.blocked or is_held
        self._num_free_slots = 0 if is_full else self.max_running - len(self.running)
        num_prefill_tokens = max(0, budget - plan.budget)  # where a decode made way, less
        for sequence in drafting:
            self._draft(sequence, plan)
        self.steps += 1
        step = plan.step()
        step.num_decodes, step.num_prefill_tokens = num_decodes, num_prefill_tokens
        if step.scheduled:
            self.in_flight.append(step)
        self._trace.note(self.steps, self._now, step, plan, self.waiting)
        return step

    def overflow(self, max_queued: int, max_tokens: int | None = None) -> list[Sequence]:
        """Waiting sequences that are too many, or have too many prompt tokens in all.

        Those that will start once another has computed what they share, or in the next
        step's share of prompts, wait for no place: the last step had one for them. Their
        tokens wait all the same.
        """
        return self.waiting.overflow(max_queued + self._num_free_slots, max_tokens)

    def explain(self, last: int, *, since: float = 0.0) -> list[StepRecord]:
        """The last steps that are remembered, oldest first, with times counted from `since`."""
        return self._trace.records(last, since=since)

    def _decode(self, plan: Plan) -> tuple[list[Sequence], list[Sequence]]:
        """Give a token to all that lack one; tells who lacks more, and who has drafts."""
        entries, size, new = plan.entries, self.block_size, tuple.__new__  # a hot loop
        prefills, drafting = [], []
        for sequence in list(self.running.values()):
            computed, pending = sequence.num_computed, sequence.num_pending
            num_outputs = len(sequence.output_token_ids) + pending
            gap = len(sequence.prompt_token_ids) + num_outputs - computed
            if gap > 1:
                prefills.append(sequence)
                continue
            max_tokens = sequence.params.max_tokens
            if gap < 1 or (pending and num_outputs >= max_tokens):
                continue  # its last token is in flight
            if sequence.row < 0:
                continue  # preempted by one before it
            if computed >= len(sequence.block_table) * size:
                if not self._make_room(sequence, plan):
                    continue
                self._allocate(sequence, 1, plan)
            sequence.num_computed = computed + 1
            if max_tokens:
                sequence.num_pending = pending + 1
            entries[sequence.id] = new(Scheduled, (sequence, computed, 1, True, 0, num_outputs))
            if sequence.drafts:
                drafting.append(sequence)
        plan.budget = self.max_step_tokens - len(entries)
        return prefills, drafting

    def _prefill(self, prefills: list[Sequence], plan: Plan) -> None:
        """Give what is left to prompts, tenants in turn: those that run, then those that wait."""
        lines: dict[str, list[Sequence]] = {}
        for sequence in prefills:
            lines.setdefault(sequence.tenant, []).append(sequence)
        can_start = bool(self.waiting.lines) and not (self._is_static and self.running)
        if can_start:
            self._admission.begin(plan)
        budget = plan.budget
        if plan.entries and self.prefill_limit is not None:
            budget = min(budget, self.prefill_limit)
        tenants = [*lines, *self.waiting.lines] if can_start else list(lines)

        def spend(tenant: str, credit: int) -> int:
            line = lines.setdefault(tenant, [])
            waits = can_start and tenant in self.waiting.lines
            fair = max(self.block_size, credit // max(1, len(line) + waits))
            left = credit
            for sequence in line:
                left -= self._extend(sequence, min(left, fair), plan)
            if waits:
                left -= self._admit(tenant, left, plan, line)
            return credit - left

        self._turns.give_out(tenants, budget, spend)

    def _admit(self, tenant: str, left: int, plan: Plan, line: list[Sequence]) -> int:
        """Start sequences of a tenant that waits, for `left` tokens; tells how many it took."""
        admission, spent, lines = self._admission, 0, self.waiting.lines
        left_to_pass = max(1, _MOST_PASSED // max(1, len(lines)))
        for sequence in lines.get(tenant, [])[: self.max_running + left_to_pass]:
            if plan.is_short or (spent >= left and not self._is_static):
                break
            if why := admission.is_closed_to(tenant):
                plan.reasons[sequence.id] = why
                break
            verdict = admission.judge(sequence)
            if verdict.victims:
                for victim in verdict.victims:
                    self._preempt(victim, plan)
                verdict = admission.judge(sequence)
            if verdict.found is None:
                plan.reasons[sequence.id] = verdict.why
                left_to_pass -= 1
                if not left_to_pass or sequence.passed_over >= PASSED_BY_OWN:
                    break
                continue
            self.waiting.remove(sequence)
            self._start(sequence, verdict.found)
            spent += self._extend(sequence, left - spent, plan)
            admission.started(sequence)
            line.append(sequence)
        return spent

    def _extend(self, sequence: Sequence, most: int, plan: Plan) -> int:
        """Give a running sequence prompt tokens, up to its share of a step; tells how many."""
        entry = plan.entries.get(sequence.id)
        if sequence.row < 0 or (entry is not None and entry.reaches_target):
            return 0
        num_given = 0 if entry is None else entry.num_tokens
        gap = sequence.target - sequence.num_computed
        wanted = min(gap, most, self.max_prefill_share - num_given)
        if wanted < 1:
            return 0
        held = len(sequence.block_table) * self.block_size - sequence.num_computed
        if held < 1 and not self._make_room(sequence, plan):
            return 0
        num_tokens = min(wanted, held + self.pool.num_free * self.block_size)
        self._allocate(sequence, -((held - num_tokens) // self.block_size), plan)
        plan.give(sequence, num_tokens)
        return num_tokens

    def _draft(self, sequence: Sequence, plan: Plan) -> None:
        """Add the drafts of a decode, as far as there is room: nothing makes way for a guess."""
        entry = plan.entries.get(sequence.id)
        if entry is None:
            return
        held = len(sequence.block_table) * self.block_size - sequence.num_computed
        room = held + self.pool.num_free * self.block_size
        most = sequence.params.max_tokens - entry.output_index - 1
        extra = max(0, min(len(sequence.drafts), plan.budget, room, most))
        self._allocate(sequence, -((held - extra) // self.block_size), plan)
        sequence.num_computed += extra
        plan.budget -= extra
        plan.entries[sequence.id] = entry._replace(num_tokens=1 + extra, num_drafts=extra)
