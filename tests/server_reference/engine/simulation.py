"""A model that computes nothing but knows what each slot of the KV cache should hold."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from server_reference.core import SamplingParams, Sequence
from server_reference.engine.scheduler import Scheduled, Scheduler, Step
from server_reference.kv.block_pool import BlockPool
from server_reference.kv.prefix_cache import block_key, root_key

__all__ = ["Simulation", "a_scheduler", "a_sequence", "added", "advance", "shape"]


def a_scheduler(*, num_blocks=32, block_size=4, **limits):
    defaults = {
        "capacity": 1000,
        "max_num_seqs": 8,
        "max_step_tokens": 32,
        "max_prefill_share": 16,
    }
    return Scheduler(BlockPool(num_blocks), block_size=block_size, **(defaults | limits))


def a_sequence(arrival, num_prompt=6, *, max_tokens=4, token=None, tenant="t", **options):
    first = 100 * arrival if token is None else token
    return Sequence(
        id=f"s{arrival}",
        tenant=tenant,
        prompt_token_ids=list(range(first, first + num_prompt)),
        params=SamplingParams(max_tokens=max_tokens),
        arrival=arrival,
        **options,
    )


@dataclass(eq=False)
class Cell:
    """What a slot holds: a hash of all tokens so far, and the cell that it was computed from."""

    value: int
    before: Cell | None
    is_wrong: bool = False

    @property
    def is_tainted(self) -> bool:
        cell: Cell | None = self
        while cell is not None and not cell.is_wrong:
            cell = cell.before
        return cell is not None


@dataclass(eq=False)
class Simulation:
    """Plays engine and model for a scheduler, at a lookahead of 0 or 1.

    The next token is a function of all before it; `end_every` ends some outputs early.
    Attention is played too: each token reads the slots of those before it, and these must
    hold what the sequence's own tokens say.
    """

    scheduler: Scheduler
    lookahead: int = 0
    end_every: int = 0
    now: int = 0
    cells: dict[int, Cell] = field(default_factory=dict)
    drawn: dict[Sequence, list[int]] = field(default_factory=dict)
    in_flight: deque[tuple[Step, dict[Sequence, list[int]]]] = field(default_factory=deque)
    first_token: dict[str, int] = field(default_factory=dict)
    finished: list[Sequence] = field(default_factory=list)
    writing: dict[Sequence, list[int]] = field(default_factory=dict)
    tables: dict[Sequence, list[int]] = field(default_factory=dict)
    poisoned: set[Sequence] = field(default_factory=set)

    @property
    def has_work(self) -> bool:
        return bool(self.scheduler.running or self.scheduler.waiting or self.in_flight)

    def add(self, *sequences: Sequence) -> None:
        for sequence in sequences:
            self.drawn[sequence] = []
            self.scheduler.add(sequence)

    def step(self, *, drafts: int | None = None) -> Step:
        """One step of the engine; with `drafts`, guesses of which so many are right."""
        self.now += 1
        if drafts is not None:
            self.land_all()
            self._guess(drafts)
        step = self.scheduler.schedule()
        self.scheduler.check()
        if step.scheduled:
            self.in_flight.append((step, self._launch(step)))
        has_drafts = any(entry.num_drafts for entry in step.scheduled)
        waits = self.lookahead if step.scheduled and not has_drafts else 0
        while len(self.in_flight) > waits:
            self._land()
        return step

    def land_all(self) -> None:
        while self.in_flight:
            self._land()

    def poison(self, sequence: Sequence) -> None:
        """Its logits were not numbers, in the step that is in flight or in the one before."""
        self.poisoned.add(sequence)
        if not self.in_flight:
            self._forget(sequence, sequence.num_computed)

    def _forget(self, sequence: Sequence, count: int) -> None:
        self.tables |= {one: one.block_table for one in self.scheduler.running.values()}
        for cell in self._table_cells(self.tables[sequence], count):
            cell.is_wrong = True
        self.scheduler.cache.forget(sequence)
        self.scheduler.remove(sequence)

    def reset(self) -> None:
        """A step failed, and nobody knows whose fault it was."""
        self.scheduler.reset()
        self.in_flight.clear()
        for sequence, tokens in self.drawn.items():
            del tokens[len(sequence.output_token_ids) :]

    def _guess(self, num_right: int) -> None:
        for sequence in self.scheduler.running.values():
            if sequence.target - sequence.num_computed == 1 and sequence.row % 2 == 0:
                tokens = self._tokens(sequence)
                for _ in range(num_right):
                    tokens.append(self._next(_hashes(sequence, tokens)[-1]))
                sequence.drafts = [*tokens[sequence.target :], -1]

    def _tokens(self, sequence: Sequence) -> list[int]:
        return sequence.prompt_token_ids + self.drawn[sequence]

    def _next(self, value: int) -> int:
        return value % 3

    def _launch(self, step: Step) -> dict[Sequence, list[int]]:
        ones = [entry.num_tokens == 1 for entry in step.scheduled]
        assert ones == sorted(ones, reverse=True), "decodes come first"
        assert step.num_tokens <= self.scheduler.max_step_tokens
        sampled = {}
        for entry in step.scheduled:
            values = self._compute(entry)
            if entry.is_sampled:
                assert len(self.drawn[entry.sequence]) == entry.output_index
                assert entry.output_index < entry.sequence.params.max_tokens
                sampled[entry.sequence] = self._accept(entry, values)
                self.drawn[entry.sequence] += sampled[entry.sequence]
        return sampled

    def _compute(self, entry: Scheduled) -> list[int]:
        sequence, size = entry.sequence, self.scheduler.block_size
        assert entry.num_tokens > 0, entry
        tokens = (self._tokens(sequence) + sequence.drafts[: entry.num_drafts])[: entry.stop]
        assert len(tokens) == entry.stop, "a token that nobody knows"
        values, before = _hashes(sequence, tokens), None
        cells = self._table_cells(sequence.block_table, entry.start)
        assert [cell.value for cell in cells] == values[: entry.start], "wrong keys are read"
        if self.tables.get(sequence) is not sequence.block_table:  # it starts, or starts again
            self.tables[sequence] = sequence.block_table
            assert not any(cell.is_tainted for cell in cells), "wrong blocks were found"
        before = cells[-1] if cells else None
        written = sequence.block_table[entry.start // size :]
        for step, _ in self.in_flight:
            others = [e.sequence for e in step.scheduled if e.sequence is not sequence]
            for other in others:
                assert set(written).isdisjoint(self.writing.get(other, ())), "still written to"
        self.writing[sequence] = written
        for position in range(entry.start, entry.stop):
            slot = sequence.block_table[position // size] * size + position % size
            before = self.cells[slot] = Cell(values[position], before)
        return values

    def _accept(self, entry: Scheduled, values: list[int]) -> list[int]:
        tokens = [self._next(values[entry.stop - 1 - entry.num_drafts])]
        for number in range(entry.num_drafts):
            if entry.sequence.drafts[number] != tokens[-1]:
                break
            tokens.append(self._next(values[entry.stop - entry.num_drafts + number]))
        return tokens

    def _table_cells(self, table: list[int], count: int) -> list[Cell]:
        size = self.scheduler.block_size
        return [self.cells[table[at // size] * size + at % size] for at in range(count)]

    def _land(self) -> None:
        step, sampled = self.in_flight.popleft()
        drafted = {entry.sequence: entry.num_drafts for entry in step.scheduled}
        rejected = {
            sequence.id: drafted[sequence] + 1 - len(tokens) for sequence, tokens in sampled.items()
        }
        self.scheduler.commit(step, rejected)
        for entry in step.scheduled:
            self._check_keys(entry.sequence)
            if entry.sequence in self.poisoned:
                self._forget(entry.sequence, entry.stop)
        for entry in step.scheduled:
            sequence = entry.sequence
            is_here = sequence in self.scheduler.waiting or sequence.row >= 0
            if is_here and self.drawn[sequence]:
                self._take(sequence, sampled.get(sequence, []))
            elif is_here and entry.reaches_target and not sequence.params.max_tokens:
                self._end(sequence)

    def _check_keys(self, sequence: Sequence) -> None:
        key, size = root_key([("tenant", sequence.tenant), ("salt", sequence.cache_salt)]), 0
        for found in sequence.block_keys:
            tokens = self._tokens(sequence)[size : size + self.scheduler.block_size]
            key, size = block_key(key, tokens), size + self.scheduler.block_size
            assert found == key, "a key of other tokens"

    def _take(self, sequence: Sequence, tokens: list[int]) -> None:
        for token in tokens:
            self.first_token.setdefault(sequence.id, self.now)
            sequence.output_token_ids.append(token)
            number = len(sequence.output_token_ids)
            ends = self.end_every and (number + sequence.arrival) % self.end_every == 0
            if number == sequence.params.max_tokens or ends:
                self._end(sequence)
                return

    def _end(self, sequence: Sequence) -> None:
        self.scheduler.remove(sequence)
        self.finished.append(sequence)


def _hashes(sequence: Sequence, tokens: list[int]) -> list[int]:
    values, value = [], hash((sequence.tenant, sequence.cache_salt))
    for token in tokens:
        value = hash((value, token))
        values.append(value)
    return values


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
