"""Who runs, on which blocks and rows, and which steps are in flight: the scheduler's books."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..core import Sequence
from ..kv.block_pool import BlockPool
from ..kv.prefix_cache import PrefixCache
from .fair_queue import FairQueue
from .step import Plan, Step

__all__ = ["Books", "OutputLengths"]

_MOST_TENANTS = 1024  # whose lengths are remembered


class OutputLengths:
    """How long each tenant's outputs are, learned from those that ended."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float, float]] = {}  # count, mean, mean deviation

    def learn(self, tenant: str, length: int) -> None:
        count, mean, deviation = self._seen.pop(tenant, (0, float(length), 0.0))
        weight = max(1 / (count + 1), 1 / 16)
        off = abs(length - mean)
        mean, deviation = mean + weight * (length - mean), deviation + weight * (off - deviation)
        self._seen[tenant] = (count + 1, mean, deviation)
        if len(self._seen) > _MOST_TENANTS:
            del self._seen[next(iter(self._seen))]

    def remaining(self, sequence: Sequence) -> int:
        """Output tokens that are still expected: a long output lasts half as long again.

        That is all there is to say of a tenant's first. Preemption mends a wrong guess.
        """
        so_far = sequence.num_outputs
        _, mean, deviation = self._seen.get(sequence.tenant, (0, 0.0, 0.0))
        expected = max(int(mean + deviation) - so_far, so_far // 2)
        return max(0, min(expected, sequence.params.max_tokens - so_far))


class Books:
    """Sequences that run and that wait, and what becomes of their blocks."""

    def __init__(
        self, pool: BlockPool, *, block_size: int, max_num_seqs: int, prefix_caching: bool
    ) -> None:
        self.pool = pool
        self.cache = PrefixCache(pool, block_size=block_size, is_on=prefix_caching)
        self.block_size = block_size
        self.max_num_seqs = max_num_seqs
        self.waiting = FairQueue()
        self.running: dict[str, Sequence] = {}  # by their start
        self.slots: Counter[str] = Counter()  # sequences that run, by tenant; no zeros
        self.in_flight: list[Step] = []
        self._free_rows = list(reversed(range(max_num_seqs)))
        self.lengths = OutputLengths()
        self.preemptions = 0
        self.prefix_tokens_queried = 0
        self.prefix_tokens_hit = 0

    def commit(self, step: Step, rejected: Mapping[str, int] | None = None) -> None:
        """Record that the oldest step in flight has run, and what it sampled is known.

        A sequence that was removed in the meantime is passed over (LMCache#4185). The caller
        has added the sampled tokens to the sequences.

        Args:
            rejected: Drafts of a sequence, by its id, that were not what it samples.
        """
        assert step is self.in_flight[0], "steps are committed in their order"
        del self.in_flight[0]
        running, size = self.running, self.block_size
        for sequence, start, num_tokens, reaches_target, num_drafts, _ in step.scheduled:
            if reaches_target and sequence.params.max_tokens:
                sequence.num_pending -= 1
            if running.get(sequence.id) is not sequence:
                continue
            stop = start + num_tokens
            if num_drafts:
                wrong = rejected.get(sequence.id, 0) if rejected else 0
                sequence.num_computed -= wrong
                stop = min(stop - wrong, sequence.num_known)  # later ones are not added yet
            if stop >= (sequence.num_published + 1) * size:
                self.cache.publish(sequence, stop)
        for table in step.freed_after:
            self.pool.release(table)

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out, wherever it is.

        Its blocks are free once no step in flight writes to them.
        """
        if self.running.get(sequence.id) is sequence:
            del self.running[sequence.id]
            if sequence.output_token_ids:
                self.lengths.learn(sequence.tenant, len(sequence.output_token_ids))
            self._release(sequence)
        else:
            self.waiting.remove(sequence)

    def reset(self) -> list[Sequence]:
        """Forget all that was computed, after a step that failed; return whom it was for.

        All that ran wait again at their places.
        """
        computed = [entry.sequence for step in self.in_flight for entry in step.scheduled]
        self.in_flight.clear()
        for sequence in list(self.running.values()):
            self._preempt(sequence, Plan(0))
        for sequence in self.waiting:
            sequence.num_pending = 0
        self.pool.reset()
        return computed

    def check(self) -> None:
        """Raise `AssertionError` unless the books balance; callable after any step."""
        tables = [sequence.block_table for sequence in self.running.values()]
        self.pool.check(tables + [table for step in self.in_flight for table in step.freed_after])
        rows = [sequence.row for sequence in self.running.values()] + self._free_rows
        assert sorted(rows) == list(range(self.max_num_seqs)), f"rows are lost or shared: {rows}"
        assert self.slots == Counter(one.tenant for one in self.running.values())
        self.waiting.check()
        sampled = [e for step in self.in_flight for e in step.scheduled if e.is_sampled]
        pending = Counter(entry.sequence.id for entry in sampled)
        for sequence in self.running.values():
            assert sequence.num_computed <= len(sequence.block_table) * self.block_size
            assert sequence.num_computed <= sequence.target + len(sequence.drafts)
            assert sequence.num_published <= sequence.num_computed // self.block_size
            assert sequence.num_pending == pending[sequence.id], f"{sequence.id} is miscounted"

    def _start(self, sequence: Sequence, found: list[int]) -> None:
        self.pool.share(found)
        sequence.block_table = found
        sequence.num_published = sequence.num_shared = len(found)
        sequence.num_computed = len(found) * self.block_size
        sequence.started_with = sequence.num_outputs
        sequence.passed_over = 0
        sequence.row = self._free_rows.pop()
        if sequence.preemptions == 0:  # later it finds its own blocks again
            sequence.num_cached = sequence.num_computed
            self.prefix_tokens_queried += sequence.target
            self.prefix_tokens_hit += sequence.num_cached
        self.running[sequence.id] = sequence
        self.slots[sequence.tenant] += 1

    def _make_room(self, sequence: Sequence, plan: Plan) -> bool:
        """Have a block free for a running sequence, at the cost of others if need be."""
        while not self.pool.num_free:
            plan.is_short = True
            if any(step.freed_after for step in self.in_flight):
                return False  # blocks will be free without a further victim (vllm-ascend#16315)
            victim = self._victim()
            self._preempt(victim, plan)
            if victim is sequence:
                return False
        return True

    def _victim(self) -> Sequence:
        """The latest of the tenant most above its share of blocks, else of that of the latest.

        Its lower priorities go first. Never who arrived first of all: so that one finishes.
        """
        by_arrival = sorted(self.running.values(), key=lambda sequence: sequence.arrival)
        assert len(by_arrival) > 1, "add lets in only what fits alone"
        held: Counter[str] = Counter()
        for sequence in by_arrival:
            held[sequence.tenant] += len(sequence.block_table)
        share = self.pool.num_blocks / len(self.slots.keys() | self.waiting.lines.keys())
        first_to_go = sorted(by_arrival[1:], key=lambda sequence: -sequence.priority)
        latest = {sequence.tenant: sequence for sequence in first_to_go}
        above = [tenant for tenant in latest if held[tenant] > share]
        return latest[max(above, key=held.__getitem__) if above else by_arrival[-1].tenant]

    def _preempt(self, sequence: Sequence, plan: Plan) -> None:
        del self.running[sequence.id]
        plan.take_back(sequence)
        self._release(sequence)
        sequence.preemptions += 1
        self.preemptions += 1
        self.waiting.add(sequence)

    def _release(self, sequence: Sequence) -> None:
        writing = [step for step in self.in_flight if step.computes(sequence)]
        if writing:
            writing[-1].freed_after.append(sequence.block_table)
        else:
            self.pool.release(sequence.block_table)
        sequence.block_table, sequence.drafts = [], []
        sequence.num_published = sequence.num_computed = 0
        self.slots[sequence.tenant] -= 1
        if not self.slots[sequence.tenant]:
            del self.slots[sequence.tenant]
        self._free_rows.append(sequence.row)
        sequence.row = -1

    def _allocate(self, sequence: Sequence, count: int, plan: Plan) -> None:
        if count > 0:
            blocks = self.pool.allocate(count)
            sequence.block_table += blocks
            plan.blocks.setdefault(sequence.id, []).extend(blocks)
