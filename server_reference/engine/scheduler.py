"""Decide which sequences compute how many tokens in the next step.

There are no phases. A sequence has a number of computed tokens and a target; one token
budget per step closes the gaps: decodes first (a gap of one), then prefills in chunks,
then sequences that wait. Arithmetic on integers, without torch.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import NamedTuple

from ..core import Sequence
from ..kv.block_pool import BlockPool
from ..kv.prefix_cache import PrefixCache

__all__ = ["RefusedError", "Scheduled", "Scheduler", "Step"]


class RefusedError(ValueError):
    """The sequence could never run, however long it waited."""


class Scheduled(NamedTuple):
    """What one sequence computes in a step: `num_tokens` tokens from position `start`."""

    sequence: Sequence
    start: int
    num_tokens: int

    @property
    def stop(self) -> int:
        """Position after the last token: the context's length in this step."""
        return self.start + self.num_tokens

    @property
    def reaches_target(self) -> bool:
        """Whether the next token can be sampled after this step."""
        return self.stop == self.sequence.target


@dataclass(frozen=True, slots=True)
class Step:
    """One step's work, decodes first."""

    scheduled: list[Scheduled]

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
        return Step(sorted(entries, key=lambda entry: entry.num_tokens > 1))

    def commit(self, step: Step) -> None:
        """Record that a step's keys and values are in the cache.

        A sequence that was removed in the meantime is passed over (LMCache#4185): a runner
        may take work in while a step computes, as an observer of its logits can already.
        """
        for entry in step.scheduled:
            sequence = entry.sequence
            if self.running.get(sequence.id) is sequence:
                sequence.num_computed = entry.stop
                self.cache.publish(sequence)

    def overflow(self, max_queued: int) -> list[Sequence]:
        """Waiting sequences beyond `max_queued`, the newest ones.

        Those that ever ran are neither counted nor among them: their output is under way.
        """
        if len(self.waiting) <= max_queued:
            return []
        return [sequence for sequence in self.waiting if sequence.preemptions == 0][max_queued:]

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out, wherever it is; its blocks are free at once."""
        if self.running.get(sequence.id) is sequence:
            del self.running[sequence.id]
            self._release(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def check(self) -> None:
        """Raise `AssertionError` unless the books balance; meant for tests."""
        self.pool.check([sequence.block_table for sequence in self.running.values()])
        for queue in (list(self.running.values()), self.waiting):
            assert queue == sorted(queue, key=_arrival), "a queue is out of order"
        assert len(self.running) <= self.max_num_seqs
        for sequence in self.running.values():
            assert sequence.num_computed <= len(sequence.block_table) * self.block_size
            assert sequence.num_computed <= sequence.target
            assert sequence.num_published == sequence.num_computed // self.block_size
        for sequence in self.waiting:
            assert not sequence.block_table, f"{sequence.id} waits and holds blocks"
            claims = (sequence.num_computed, sequence.num_published)
            assert claims == (0, 0), f"{sequence.id} waits and claims to be computed"

    def _running_in_turn(self) -> list[tuple[Sequence, int]]:
        """Running sequences and their gaps, decodes first, by arrival otherwise."""
        gaps = [(sequence, _gap(sequence)) for sequence in self.running.values()]
        prefills = [entry for entry in gaps if entry[1] > 1]
        return [entry for entry in gaps if entry[1] == 1] + prefills

    def _advance(self, sequence: Sequence, gap: int, plan: _Plan) -> None:
        """Give a running sequence its tokens, preempting later ones for the blocks."""
        wanted = min(gap, plan.budget, self.max_prefill_share)
        if wanted < 1:
            return
        room = self._room(sequence)
        while room < 1:
            victim = next(reversed(self.running.values()))
            assert len(self.running) > 1, "add lets in only what fits alone"
            self._preempt(victim, plan)
            if victim is sequence:
                return
            room = self._room(sequence)
        self._take(sequence, min(wanted, room), plan)

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
        plan.give(Scheduled(sequence, start, num_tokens))

    def _preempt(self, sequence: Sequence, plan: _Plan) -> None:
        del self.running[sequence.id]
        self._release(sequence)
        sequence.preemptions += 1
        self.preemptions += 1
        plan.take_back(sequence)
        insort(self.waiting, sequence, key=_arrival)  # its old place, not the end (vllm#41951)

    def _release(self, sequence: Sequence) -> None:
        self.pool.release(sequence.block_table)
        sequence.block_table = []
        sequence.num_published = 0
        sequence.num_computed = 0

    def _room(self, sequence: Sequence) -> int:
        """Tokens that fit into the sequence's blocks and the free ones."""
        blocks = len(sequence.block_table) + self.pool.num_free
        return blocks * self.block_size - sequence.num_computed

    def _missing(self, sequence: Sequence) -> int:
        return self._blocks_for(sequence.target) - len(sequence.block_table)

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


def _gap(sequence: Sequence) -> int:
    return sequence.target - sequence.num_computed


def _arrival(sequence: Sequence) -> int:
    return sequence.arrival
