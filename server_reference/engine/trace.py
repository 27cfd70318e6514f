"""The last steps, to be explained: kept as they come, put into words only when asked."""

from __future__ import annotations

from collections import deque
from itertools import islice

from ..core import Sequence, SequenceRecord, StepRecord, WaitingRecord
from .fair_queue import FairQueue
from .step import Plan, Scheduled, Step

__all__ = ["Trace"]

_MOST_WAITING = 32  # records of one step
_Noted = tuple[int, float, Step, Plan, int, list[tuple[Sequence, int]]]


class Trace:
    """Remembers `num_steps` steps."""

    def __init__(self, num_steps: int) -> None:
        self._steps: deque[_Noted] = deque(maxlen=num_steps)

    def note(self, number: int, at: float, step: Step, plan: Plan, waiting: FairQueue) -> None:
        if self._steps.maxlen:
            some = [(sequence, sequence.target) for sequence in islice(waiting, _MOST_WAITING)]
            self._steps.append((number, at, step, plan, len(waiting), some))

    def records(self, last: int, *, since: float = 0.0) -> list[StepRecord]:
        """The last steps, oldest first, with times counted from `since`."""
        return [
            StepRecord(
                number=number,
                at=at - since,
                duration=step.duration,
                scheduled=tuple(_record(entry, plan) for entry in step.scheduled),
                num_waiting=num_waiting,
                waiting=tuple(_waits(plan, sequence, count) for sequence, count in waiting),
                preempted=tuple(sequence.id for sequence in plan.preempted),
            )
            for number, at, step, plan, num_waiting, waiting in list(self._steps)[-max(0, last) :]
            if last > 0
        ]


def _record(entry: Scheduled, plan: Plan) -> SequenceRecord:
    sequence, start, num_tokens, _, num_drafts, output_index = entry
    total = len(sequence.prompt_token_ids) + output_index
    job = "recompute after preemption" if output_index else "prefill"
    why = f"{job} {start + 1:,}-{entry.stop:,} of {total:,}"
    if num_drafts:
        why = f"decode, drafts to check: {num_drafts}"
    elif num_tokens == 1 and output_index and entry.reaches_target:
        why = "decode"
    return SequenceRecord(
        id=sequence.id,
        tenant=sequence.tenant,
        start=start,
        num_tokens=num_tokens,
        num_drafts=num_drafts,
        blocks=tuple(plan.blocks.get(sequence.id, ())),
        num_shared=sequence.num_shared,
        why=why,
    )


def _waits(plan: Plan, sequence: Sequence, num_tokens: int) -> WaitingRecord:
    why = "a running one lacked blocks" if plan.is_short else "it was not its turn"
    why = plan.reasons.get(sequence.id, why)
    return WaitingRecord(id=sequence.id, tenant=sequence.tenant, num_tokens=num_tokens, why=why)
