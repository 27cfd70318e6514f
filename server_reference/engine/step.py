"""What the scheduler hands on: one step's work, and a step in the making."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..core import Sequence

__all__ = ["Plan", "Scheduled", "Step"]


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
        freed_after: Block tables of sequences that left while this step, which writes to
            them, was in flight; they are free once it is committed.
        num_decodes: Sequences that go on with a token each, drafts left out.
        num_prefill_tokens: Tokens of all others.
        begun: When it was taken up, in seconds of the engine's clock.
        duration: Seconds that it took; whoever ran it says so.
    """

    scheduled: list[Scheduled]
    freed_after: list[list[int]] = field(default_factory=list)
    num_decodes: int = 0
    num_prefill_tokens: int = 0
    begun: float = 0.0
    duration: float | None = None

    def computes(self, sequence: Sequence) -> bool:
        return any(entry.sequence is sequence for entry in self.scheduled)

    @property
    def num_tokens(self) -> int:
        return sum(entry.num_tokens for entry in self.scheduled)


class Plan:
    """A step in the making: what was given out so far, and what is left.

    Attributes:
        budget: Tokens that are left.
        is_short: Whether a running sequence lacked a block; then nothing starts.
        blocks: Blocks taken, by the sequence's id.
        reasons: Why sequences that were looked at wait, by their id.
    """

    def __init__(self, budget: int) -> None:
        self.budget = self._total = budget
        self.is_short = False
        self.entries: dict[str, Scheduled] = {}
        self.blocks: dict[str, list[int]] = {}
        self.preempted: list[Sequence] = []
        self.reasons: dict[str, str] = {}

    def give(self, sequence: Sequence, num_tokens: int) -> None:
        """Let a sequence compute further tokens, for which it has blocks."""
        entry, num_outputs = self.entries.get(sequence.id), sequence.num_outputs
        start, num_given = sequence.num_computed, num_tokens
        if entry is not None:
            start, num_given = entry.start, entry.num_tokens + num_tokens
        sequence.num_computed += num_tokens
        reaches_target = sequence.num_computed == sequence.target
        entry = Scheduled(sequence, start, num_given, reaches_target, 0, num_outputs)
        sequence.num_pending += entry.is_sampled
        self.budget -= num_tokens
        self.entries[sequence.id] = entry

    def take_back(self, sequence: Sequence) -> None:
        """Undo what a sequence was given before it was preempted in the same step."""
        self.preempted.append(sequence)
        entry = self.entries.pop(sequence.id, None)
        if entry is not None:
            self.budget += entry.num_tokens
            sequence.num_pending -= entry.is_sampled

    def step(self) -> Step:
        """The step, one-token entries first."""
        entries = list(self.entries.values())
        if self.budget + len(entries) == self._total:  # one each
            return Step(entries)
        ones = [entry for entry in entries if entry.num_tokens == 1]
        return Step(ones + [entry for entry in entries if entry.num_tokens > 1])
