"""Decide which sequences compute how many tokens in the next step.

There are no phases. A sequence has a number of computed tokens and a target; one token
budget per step closes the gaps: decodes first (a gap of one), then prefills in chunks,
then sequences that wait. Arithmetic on integers, without torch.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..core import Sequence
from ..kv.block_pool import BlockPool
from ..kv.prefix_cache import PrefixCache

__all__ = ["RefusedError", "Scheduled", "Scheduler", "Step"]


class RefusedError(ValueError):
    """The sequence could never run, however long it waited."""


class Scheduled(NamedTuple):
    """What one sequence computes in a step: `num_tokens` tokens from position `start`.

    Attributes:
        reaches_target: Whether the next token can be sampled after this step.
        num_drafts: The last so many of its tokens are guesses.
        output_index: The place in the output of the token that it samples first.
    """

    sequence: Sequence
    start: int
    num_tokens: int
    reaches_target: bool = False
    num_drafts: int = 0
    output_index: int = 0

    @property
    def stop(self) -> int:
        """Position after the last token: the context's length in this step."""
        return self.start + self.num_tokens

    @property
    def is_sampled(self) -> bool:
        """Whether logits of it are wanted: not where only the prompt is to be computed."""
        return self.reaches_target and self.sequence.params.max_tokens > 0


@dataclass(slots=True, eq=False)
class Step:
    """One step's work, decodes first; in flight from `schedule` until `commit`.

    Attributes:
        begun: When the engine took it up, in seconds of its clock.
        freed_after: Block tables of sequences that left while this step, which writes to
            them, was in flight; they are free once it is committed.
    """

    scheduled: list[Scheduled]
    begun: float = 0.0
    freed_after: list[list[int]] = field(default_factory=list)

    def computes(self, sequence: Sequence) -> bool:
        return any(entry.sequence is sequence for entry in self.scheduled)

    @property
    def num_tokens(self) -> int:
        return sum(entry.num_tokens for entry in self.scheduled)


class Scheduler:
    """Runs sequences in order of arrival, as many as the pool and the limits hold.

    It cannot livelock. Blocks are taken from the sequence that arrived last, and `add`
    refuses what would not fit even alone, so the oldest is never short of them. A sequence
    starts only where every running one has had a token and one is left, so no more run
    than a step has tokens, and the oldest is never short of those either.

    Args:
        pool: The KV blocks.
        block_size: Tokens per block.
        capacity: Tokens that one sequence may have, prompt and output.
        max_num_seqs: Sequences that run at once.
        max_step_tokens: Tokens of one step.
        max_prefill_share: Tokens of one step for one sequence.
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
    ) -> None:
        self.pool = pool
        self.cache = PrefixCache(pool, block_size=block_size)
        self.block_size = block_size
        self.capacity = min(capacity, pool.num_blocks * block_size)
        self.max_num_seqs = max_num_seqs
        self.max_step_tokens = max_step_tokens
        self.max_prefill_share = max_prefill_share
        self.waiting: list[Sequence] = []  # by arrival
        self.running: dict[str, Sequence] = {}  # by arrival
        self._in_flight: list[Step] = []
        self._free_rows = list(reversed(range(max_num_seqs)))
        self.steps = 0
        self.preemptions = 0
        self.prefix_tokens_queried = 0
        self.prefix_tokens_hit = 0

    def add(self, sequence: Sequence) -> None:
        """Put a sequence into the waiting queue, at the place of its arrival.

        Raises:
            RefusedError: Prompt and `max_tokens` exceed the context or the whole pool.
        """
        num_prompt, max_tokens = len(sequence.prompt_token_ids), sequence.params.max_tokens
        if num_prompt < 1:
            raise RefusedError("a prompt needs at least 1 token, this one has 0")
        if max_tokens < 0:
            raise RefusedError(f"max_tokens must be at least 0, not {max_tokens}")
        if num_prompt + max_tokens > self.capacity:
            fitting = self.capacity - num_prompt
            advice = f"lower max_tokens to {fitting}" if fitting > 0 else "shorten the prompt"
            raise RefusedError(
                f"{num_prompt} prompt tokens and max_tokens={max_tokens} exceed the "
                f"{self.capacity} tokens that one sequence may have; {advice}"
            )
        insort(self.waiting, sequence, key=_arrival)

    def schedule(self) -> Step:
        """Choose the next step's work and take the blocks that it writes."""
        plan = _Plan(self.max_step_tokens)
        for sequence, gap in self._running_in_turn():
            if sequence.id in self.running:  # else preempted by one before it
                self._advance(sequence, gap, plan)
        if not plan.has_preempted:
            self._admit(plan)
        self.steps += 1
        entries = plan.entries.values()
        step = Step(sorted(entries, key=lambda entry: entry.num_tokens > 1))
        if step.scheduled:
            self._in_flight.append(step)
        return step

    def commit(self, step: Step, rejected: Mapping[str, int] | None = None) -> None:
        """Record that the oldest step in flight has run, and what it sampled is known.

        A sequence that was removed in the meantime is passed over (LMCache#4185). The caller
        has added the sampled tokens to the sequences.

        Args:
            rejected: Drafts of a sequence, by its id, that were not what it samples.
        """
        assert step is self._in_flight.pop(0), "steps are committed in their order"
        for entry in step.scheduled:
            sequence = entry.sequence
            sequence.num_pending -= entry.is_sampled
            if self.running.get(sequence.id) is sequence:
                wrong = rejected.get(sequence.id, 0) if rejected else 0
                sequence.num_computed -= wrong
                sequence.drafts = []
                self.cache.publish(sequence, min(entry.stop - wrong, sequence.num_known))
        for table in step.freed_after:
            self.pool.release(table)

    def cancel(self, step: Step) -> None:
        """Take a step back that did not run: everything is as if it had not been scheduled."""
        self._in_flight.remove(step)
        for entry in step.scheduled:
            entry.sequence.num_pending -= entry.is_sampled
            if self.running.get(entry.sequence.id) is entry.sequence:
                entry.sequence.num_computed -= entry.num_tokens
        for table in step.freed_after:
            self.pool.release(table)

    def reset(self) -> list[Sequence]:
        """Forget all that was computed, after a step that failed; return whom it was for.

        All that ran wait again at their places.
        """
        steps, self._in_flight = self._in_flight, []
        for sequence in list(self.running.values()):
            self._preempt(sequence, _Plan(0))
            sequence.num_pending = 0
        self.pool.reset()
        return [entry.sequence for step in steps for entry in step.scheduled]

    def overflow(self, max_queued: int) -> list[Sequence]:
        """Waiting sequences beyond `max_queued`, the newest ones.

        Those that ever ran are neither counted nor among them: their output is under way.
        """
        if len(self.waiting) <= max_queued:
            return []
        return [sequence for sequence in self.waiting if sequence.preemptions == 0][max_queued:]

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out, wherever it is.

        Its blocks are free at once, or once the step in flight that writes to them is
        committed.
        """
        if self.running.get(sequence.id) is sequence:
            del self.running[sequence.id]
            self._release(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def check(self) -> None:
        """Raise `AssertionError` unless the books balance; meant for tests."""
        tables = [sequence.block_table for sequence in self.running.values()]
        self.pool.check(tables + [table for step in self._in_flight for table in step.freed_after])
        rows = [sequence.row for sequence in self.running.values()] + self._free_rows
        assert sorted(rows) == list(range(self.max_num_seqs)), f"rows are lost or shared: {rows}"
        for queue in (list(self.running.values()), self.waiting):
            assert queue == sorted(queue, key=_arrival), "a queue is out of order"
        assert len(self.running) <= self.max_num_seqs
        for sequence in self.running.values():
            assert sequence.num_computed <= len(sequence.block_table) * self.block_size
            assert sequence.num_computed <= sequence.target + len(sequence.drafts)
            assert sequence.num_published <= sequence.num_computed // self.block_size
        for sequence in self.waiting:
            assert not sequence.block_table, f"{sequence.id} waits and holds blocks"
            claims = (sequence.num_computed, sequence.num_published)
            assert claims == (0, 0), f"{sequence.id} waits and claims to be computed"

    def _running_in_turn(self) -> list[tuple[Sequence, int]]:
        """Running sequences and their gaps, decodes first, by arrival otherwise."""
        gaps = [(sequence, _gap(sequence)) for sequence in self.running.values()]
        prefills = [entry for entry in gaps if entry[1] > 1]  # 0: its last token is in flight
        return [entry for entry in gaps if entry[1] == 1] + prefills

    def _advance(self, sequence: Sequence, gap: int, plan: _Plan) -> None:
        """Give a running sequence its tokens, preempting later ones for the blocks."""
        wanted = min(gap, plan.budget, self.max_prefill_share)
        if wanted < 1:
            return
        room = self._room(sequence)
        while room < 1:
            if any(step.freed_after for step in self._in_flight):
                return  # blocks will be free without a further victim (vllm-ascend#16315)
            victim = next(reversed(self.running.values()))
            assert len(self.running) > 1, "add lets in only what fits alone"
            self._preempt(victim, plan)
            if victim is sequence:
                return
            room = self._room(sequence)
        self._take(sequence, min(wanted, room), plan)
        # Drafts take what is left over: nothing is preempted for a guess.
        self._draft(sequence, plan)

    def _admit(self, plan: _Plan) -> None:
        """Start waiting sequences in order, while all they have to compute fits."""
        promised = sum(self._missing(sequence) for sequence in self.running.values())
        while self.waiting and plan.budget > 0 and len(self.running) < self.max_num_seqs:
            sequence = self.waiting[0]
            found = self.cache.match(sequence)
            missing = self._blocks_for(sequence.target) - len(found)
            if promised + missing + self.pool.num_free_among(found) > self.pool.num_free:
                return
            self.waiting.pop(0)
            self._start(sequence, found)
            wanted = min(_gap(sequence), plan.budget, self.max_prefill_share)
            self._take(sequence, wanted, plan)
            promised += self._missing(sequence)

    def _start(self, sequence: Sequence, found: list[int]) -> None:
        self.pool.share(found)
        sequence.block_table = found
        sequence.num_published = len(found)
        sequence.num_computed = len(found) * self.block_size
        sequence.row = self._free_rows.pop()
        if sequence.preemptions == 0:  # later it finds its own blocks again
            sequence.num_cached = sequence.num_computed
            self.prefix_tokens_queried += sequence.target
            self.prefix_tokens_hit += sequence.num_cached
        self.running[sequence.id] = sequence

    def _take(self, sequence: Sequence, num_tokens: int, plan: _Plan) -> None:
        start = sequence.num_computed
        missing = self._blocks_for(start + num_tokens) - len(sequence.block_table)
        if missing > 0:
            sequence.block_table += self.pool.allocate(missing)
        sequence.num_computed = start + num_tokens
        reaches_target = sequence.num_computed == sequence.target
        entry = Scheduled(sequence, start, num_tokens, reaches_target, 0, sequence.num_outputs)
        sequence.num_pending += entry.is_sampled
        plan.give(entry)

    def _draft(self, sequence: Sequence, plan: _Plan) -> None:
        """Add the drafts of a sequence that reaches its target, as far as there is room."""
        entry = plan.entries[sequence.id]
        if not sequence.drafts or not entry.is_sampled:
            return
        extra = min(len(sequence.drafts), plan.budget, self._room(sequence))
        missing = self._blocks_for(entry.stop + extra) - len(sequence.block_table)
        if missing > 0:
            sequence.block_table += self.pool.allocate(missing)
        sequence.num_computed += extra
        plan.budget -= extra
        plan.entries[sequence.id] = entry._replace(
            num_tokens=entry.num_tokens + extra, num_drafts=extra
        )

    def _preempt(self, sequence: Sequence, plan: _Plan) -> None:
        del self.running[sequence.id]
        plan.take_back(sequence)
        self._release(sequence)
        sequence.preemptions += 1
        self.preemptions += 1
        insort(self.waiting, sequence, key=_arrival)  # its old place, not the end (vllm#41951)

    def _release(self, sequence: Sequence) -> None:
        writing = [step for step in self._in_flight if step.computes(sequence)]
        if writing:
            writing[-1].freed_after.append(sequence.block_table)
        else:
            self.pool.release(sequence.block_table)
        sequence.block_table = []
        sequence.drafts = []
        sequence.num_published = 0
        sequence.num_computed = 0
        self._free_rows.append(sequence.row)
        sequence.row = -1

    def _room(self, sequence: Sequence) -> int:
        """Tokens that fit into the sequence's blocks and the free ones."""
        blocks = len(sequence.block_table) + self.pool.num_free
        return blocks * self.block_size - sequence.num_computed

    def _missing(self, sequence: Sequence) -> int:
        return self._blocks_for(sequence.num_known) - len(sequence.block_table)

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)


class _Plan:
    """A step in the making: what was given out so far, and the budget that is left."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.entries: dict[str, Scheduled] = {}
        self.has_preempted = False

    def give(self, entry: Scheduled) -> None:
        self.budget -= entry.num_tokens
        self.entries[entry.sequence.id] = entry

    def take_back(self, sequence: Sequence) -> None:
        """Undo what a sequence was given before it was preempted in the same step."""
        self.has_preempted = True
        entry = self.entries.pop(sequence.id, None)
        if entry is not None:
            self.budget += entry.num_tokens
            sequence.num_pending -= entry.is_sampled


def _gap(sequence: Sequence) -> int:
    """Tokens that are to be computed; none while its last one is being sampled."""
    if sequence.num_pending and sequence.num_outputs >= sequence.params.max_tokens:
        return 0
    return sequence.target - sequence.num_computed


def _arrival(sequence: Sequence) -> int:
    return sequence.arrival
