"""The last steps, to be explained: kept as they come, put into words only when asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from ..core import Sequence, SequenceRecord, StepRecord, WaitingRecord
from .step import Plan, Scheduled, Step

__all__ = ["Trace"]

_MOST_WAITING = 32  # records of one step


@dataclass(frozen=True, slots=True)
class _Noted:
    number: int
    at: float
    step: Step
    plan: Plan
    waiting: list[tuple[Sequence, int]]


class Trace:
    """Remembers `num_steps` steps."""

    def __init__(self, num_steps: int) -> None:
        self._steps: deque[_Noted] = deque(maxlen=num_steps)

    def note(
        self, number: int, at: float, step: Step, plan: Plan, waiting: Iterable[Sequence]
    ) -> None:
        if self._steps.maxlen:
            some = [(sequence, sequence.target) for sequence in islice(waiting, _MOST_WAITING)]
            self._steps.append(_Noted(number, at, step, plan, some))

    def records(self, last: int, *, since: float = 0.0) -> list[StepRecord]:
        """The last steps, oldest first, with times counted from `since`."""
        chosen = list(self._steps)[-last:] if last > 0 else []
        return [
            StepRecord(
                number=noted.number,
                at=noted.at - since,
                duration=noted.step.duration,
                scheduled=tuple(_record(entry, noted.plan) for entry in noted.step.scheduled),
                waiting=tuple(_waits(noted.plan, *one) for one in noted.waiting),
                preempted=tuple(sequence.id for sequence in noted.plan.preempted),
            )
            for noted in chosen
        ]


def _record(entry: Scheduled, plan: Plan) -> SequenceRecord:
    sequence = entry.sequence
    return SequenceRecord(
        id=sequence.id,
        tenant=sequence.tenant,
        start=entry.start,
        num_tokens=entry.num_tokens,
        num_drafts=entry.num_drafts,
        blocks=tuple(plan.blocks.get(sequence.id, ())),
        num_shared=sequence.num_shared,
        why=_why(entry),
    )


def _why(entry: Scheduled) -> str:
    num_prompt = len(entry.sequence.prompt_token_ids)
    total = num_prompt + entry.output_index
    if entry.num_drafts:
        return f"decode, drafts to check: {entry.num_drafts}"
    if entry.stop == total and entry.num_tokens == 1 and entry.output_index:
        return "decode"
    job = "prefill" if total == num_prompt else "recompute after preemption"
    return f"{job} {entry.start + 1:,}-{entry.stop:,} of {total:,}"


def _waits(plan: Plan, sequence: Sequence, num_tokens: int) -> WaitingRecord:
    why = plan.reasons.get(sequence.id)
    if why is None:
        why = "a running one lacked blocks" if plan.is_short else "it was not its turn"
    return WaitingRecord(id=sequence.id, tenant=sequence.tenant, num_tokens=num_tokens, why=why)
