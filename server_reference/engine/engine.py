"""The engine: `step()` is schedule, build a batch, run, sample, publish."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Set
from dataclasses import dataclass

from ..config import EngineConfig
from ..core import (
    EngineStats,
    FinishReason,
    GenerateRequest,
    Sequence,
    SequenceRecord,
    SequenceUpdate,
    StageTimes,
    StepRecord,
    WaitingRecord,
)
from ..kv.block_pool import BlockPool
from ..kv.memory import free_memory
from ..models.load import LoadedModel
from .attention_backends import PagedCache
from .cpu_attention import cpu_attention
from .detokenizer import Detokenizer
from .model_runner import Flight, LogitsObserver, ModelRunner
from .pool_size import pool_size
from .scheduler import RefusedError, Scheduled, Scheduler, Step

__all__ = ["Engine", "RefusedError"]

_NOT_NUMBERS = (
    "the model computed logits that are not numbers for this sequence; "
    "run it with dtype='fp32', or check the checkpoint"
)


@dataclass(slots=True)
class _Live:
    """What the engine knows of a sequence besides what is to be computed."""

    sequence: Sequence
    detokenizer: Detokenizer
    added: float
    started: float | None = None
    first_token: float | None = None
    last_token: float | None = None

    def reach(self, now: float) -> None:
        """Note that the prompt was computed, or one more token after it."""
        if self.first_token is None:
            self.first_token = now
        else:
            self.last_token = now

    def take(self, token: int, eos: Set[int]) -> tuple[str, FinishReason | None]:
        """Add a token: the text that it makes certain, and whether it was the last one."""
        if token in eos:
            return "", "stop"
        sequence = self.sequence
        sequence.output_token_ids.append(token)
        text = self.detokenizer.push(token)
        if self.detokenizer.stopped_by is not None:
            return text, "stop_sequence"
        if len(sequence.output_token_ids) >= sequence.params.max_tokens:
            return text, "length"
        return text, None

    def update(
        self, text: str, finish_reason: FinishReason | None, error: str | None = None
    ) -> SequenceUpdate:
        """Say it to the front; the last update brings the text that was held back."""
        if finish_reason is not None:
            text += self.detokenizer.flush()
            if finish_reason in ("stop", "length") and self.detokenizer.stopped_by is not None:
                finish_reason = "stop_sequence"  # completed by the flushed character
        return SequenceUpdate(
            id=self.sequence.id,
            text=text,
            num_output_tokens=len(self.sequence.output_token_ids),
            num_cached_tokens=self.sequence.num_cached,
            times=StageTimes(
                queue=_between(self.added, self.started),
                prefill=_between(self.started, self.first_token),
                decode=_between(self.first_token, self.last_token),
            ),
            finish_reason=finish_reason,
            stop_sequence=self.detokenizer.stopped_by,
            error=error,
        )


class Engine:
    """Runs many sequences at once through one model. Not thread-safe: one loop owns it.

    Args:
        model: Weights and tokenizer.
        config: Limits, pool size, numerics.
        clock: Seconds, monotonic.
        on_logits: Sees the logits of every sampled row, for tests and tools.

    Attributes:
        capacity: Tokens that one sequence may have, prompt and `max_tokens` together:
            the context of the model or the whole pool, whichever is smaller.
        notes: The arithmetic of its memory, in words.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_logits: LogitsObserver | None = None,
    ) -> None:
        shapes, dtype = model.transformer.config, model.transformer.dtype
        pool = pool_size(shapes, config, dtype, free=free_memory())
        self.scheduler = Scheduler(
            BlockPool(pool.num_blocks),
            block_size=config.block_size,
            capacity=shapes.max_context,
            max_num_seqs=config.max_num_seqs,
            max_step_tokens=config.max_step_tokens,
            max_prefill_share=config.max_prefill_share,
        )
        self.capacity = self.scheduler.capacity
        self.notes = pool.notes
        cache = PagedCache(
            shapes, num_blocks=pool.num_blocks, block_size=config.block_size, dtype=dtype
        )
        self._runner = ModelRunner(
            model.transformer,
            cpu_attention(config.numerics, shapes, cache, mirror_tokens=pool.mirror_tokens),
            block_size=config.block_size,
            max_num_seqs=config.max_num_seqs,
            seed=config.seed,
            on_logits=on_logits,
        )
        self._tokenizer = model.tokenizer
        self._max_queued = config.max_queued
        self._clock = clock
        self._live: dict[str, _Live] = {}
        self._arrivals = 0
        self._lookahead = config.lookahead
        self._in_flight: Flight | None = None
        self._born = clock()
        self._trace: deque[StepRecord] = deque(maxlen=config.traced_steps)

    @property
    def has_work(self) -> bool:
        return bool(self._live) or self._in_flight is not None

    def add(self, request: GenerateRequest) -> None:
        """Queue a request.

        Raises:
            RefusedError: It could never run: no prompt, or more tokens than `capacity`.
            ValueError: A sequence with this id is running.
        """
        if request.id in self._live:
            raise ValueError(f"a sequence with id {request.id!r} is running; ids must be unique")
        sequence = Sequence(
            id=request.id,
            tenant=request.tenant,
            prompt_token_ids=request.prompt_token_ids,
            params=request.params,
            arrival=self._arrivals,
        )
        self.scheduler.add(sequence)
        self._arrivals += 1
        detokenizer = Detokenizer(self._tokenizer.token_bytes, stop=request.params.stop)
        self._live[request.id] = _Live(sequence, detokenizer, self._clock())

    def abort(self, id: str) -> None:
        """End a sequence without a further update; its blocks are free at once.

        An unknown id, or one that has finished, is ignored.
        """
        live = self._live.pop(id, None)
        if live is not None:
            self.scheduler.remove(live.sequence)

    def step(self) -> list[SequenceUpdate]:
        """Compute one step, and say what it added to each sequence that got a token.

        The model's end-of-turn token finishes with `stop`; it is no text, and is not
        counted in `num_output_tokens`. With `max_tokens=0` a sequence finishes with
        `length` once its prompt is computed and cached. Where more than `max_queued` wait
        after this step's were chosen, the newest finish with `refused`.
        """
        step = self.scheduler.schedule()
        updates = self._refuse()
        if not step.scheduled:
            return updates + self._finish()
        step.begun = self._note_start(step)
        try:
            updates += self._run(step)
        except BaseException:
            self.scheduler.cancel(step)
            raise
        return updates if self._lookahead else updates + self._finish()

    def _run(self, step: Step) -> list[SequenceUpdate]:
        """Launch and sample a step; meanwhile publish the one before."""
        flight = self._runner.launch(step)
        needs_host = self._needs_host(flight)
        if not needs_host:
            self._runner.sample(flight)
        updates = self._finish()
        if needs_host:  # its rules ask for tokens that only now are known
            self._runner.sample(flight)
        self._in_flight = flight
        return updates

    def _needs_host(self, flight: Flight) -> bool:
        """Whether some row can be drawn only once the tokens before it are known here."""
        return False

    def _finish(self) -> list[SequenceUpdate]:
        """Wait for the step in flight, and publish what it sampled."""
        flight, self._in_flight = self._in_flight, None
        if flight is None:
            return []
        tokens = self._runner.collect(flight)
        step = flight.step
        self.scheduler.commit(step)
        tokens += [(entry, None) for entry in step.scheduled if _is_prefill_only(entry)]
        now = self._clock()
        updates = []
        for entry, token in tokens:
            live = self._live.get(entry.sequence.id)
            if live is not None and live.sequence is entry.sequence:  # else it ended meanwhile
                updates.append(self._publish(live, token, now))
        self._remember(step, step.begun, now)
        return updates

    def stats(self) -> EngineStats:
        scheduler = self.scheduler
        return EngineStats(
            num_running=len(scheduler.running),
            num_queued=len(scheduler.waiting),
            num_blocks=scheduler.pool.num_blocks,
            num_free_blocks=scheduler.pool.num_free,
            num_cached_blocks=scheduler.pool.num_cached,
            steps=scheduler.steps,
            preemptions=scheduler.preemptions,
            prefix_tokens_queried=scheduler.prefix_tokens_queried,
            prefix_tokens_hit=scheduler.prefix_tokens_hit,
        )

    def explain(self, last: int) -> list[StepRecord]:
        """What is remembered of the `last` steps, oldest first."""
        return list(self._trace)[-last:]

    def _remember(self, step: Step, begun: float, now: float) -> None:
        scheduled = tuple(
            SequenceRecord(
                id=one.sequence.id,
                tenant=one.sequence.tenant,
                start=one.start,
                num_tokens=one.num_tokens,
                num_shared=one.sequence.num_cached // self.scheduler.block_size,
                why="decode" if one.num_tokens == 1 else f"prefill {one.start + 1}-{one.stop}",
            )
            for one in step.scheduled
        )
        waiting = tuple(
            WaitingRecord(id=one.id, tenant=one.tenant, num_tokens=one.target, why="in the queue")
            for one in self.scheduler.waiting
        )
        record = StepRecord(
            number=self.scheduler.steps,
            at=begun - self._born,
            duration=now - begun,
            scheduled=scheduled,
            waiting=waiting,
        )
        self._trace.append(record)

    def _refuse(self) -> list[SequenceUpdate]:
        """Only here is it known who really waits: the front's books lag by a step."""
        updates = []
        for sequence in self.scheduler.overflow(self._max_queued):
            self.scheduler.remove(sequence)
            updates.append(self._live.pop(sequence.id).update("", "refused"))
        return updates

    def _note_start(self, step: Step) -> float:
        now = self._clock()
        for entry in step.scheduled:
            live = self._live[entry.sequence.id]
            if live.started is None:
                live.started = now
        return now

    def _publish(self, live: _Live, token: int | None, now: float) -> SequenceUpdate:
        live.reach(now)
        text, reason, error = "", None, None
        if token is not None:
            text, reason = live.take(token, self._tokenizer.eos_token_ids)
        elif live.sequence.params.max_tokens == 0:
            reason = "length"
        else:
            reason, error = "error", _NOT_NUMBERS
            self.scheduler.pool.forget(live.sequence.block_table)
        if reason is not None:
            del self._live[live.sequence.id]
            self.scheduler.remove(live.sequence)
        return live.update(text, reason, error)


def _is_prefill_only(entry: Scheduled) -> bool:
    return entry.reaches_target and entry.sequence.params.max_tokens == 0


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else end - start
