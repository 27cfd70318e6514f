"""The engine: `step()` is schedule, build a batch, run, sample, publish."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache

from ..checkpoints.load import LoadedModel
from ..config import EngineConfig
from ..core import (
    EngineStats,
    FinishReason,
    GenerateRequest,
    Sequence,
    SequenceUpdate,
    StepRecord,
)
from ..kernels.draw import check_params, check_token_ids
from ..text.detokenizer import Detokenizer
from ..text.grammar import GrammarCompiler
from .model_runner import Drawn, Flight, LogitsObserver, ModelRunner
from .output import Output
from .parts import Body, body_of, builder, looks_ahead, memory, pace, scheduler
from .rules import Rules
from .scheduler import RefusedError, Step
from .speculation import Speculator

__all__ = ["Engine", "RefusedError"]

_log = logging.getLogger(__name__)


class Engine:
    """Runs many sequences at once through one model. Not thread-safe: one loop owns it.

    Args:
        model: Weights and tokenizer.
        config: Limits, pool size, numerics.
        clock: Seconds, monotonic.
        on_logits: Sees the logits of every token that is drawn, for tests and tools.
        body: Takes the place of the device's own, for tests and tools.

    Attributes:
        failed_steps: Steps in a row that raised.
        capacity: Tokens that one sequence may have, prompt and `max_tokens` together.
        grammars: Compiles what outputs must match; another thread may compile with it.
        notes: What the model is computed in, and the arithmetic of the engine's memory.
    """

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_logits: LogitsObserver | None = None,
        body: Body | None = None,
    ) -> None:
        self._config = config
        pool = memory(model.transformer, config)
        self.notes = [*pool.notes, f"{model.name} is computed in {model.numerics}"]
        self.scheduler = scheduler(config, pool)
        self.capacity = self.scheduler.capacity
        self._token_bytes = cache(model.tokenizer.token_bytes)
        self._vocab_size = model.transformer.config.vocab_size
        # Of a tokenizer with more tokens than the model, those beyond are never drawn.
        eos = model.tokenizer.eos_token_ids
        self._eos = frozenset(one for one in eos if one < self._vocab_size)
        self.grammars = GrammarCompiler(model.tokenizer)
        self._rules = Rules(seed=config.seed, eos=self._eos, compile=self.grammars.compile)
        body = body or body_of(model.transformer, config, pool)
        self._runner = ModelRunner(
            model.transformer,
            body.attention,
            builder(config, pool),
            self._rules,
            max_num_seqs=config.max_num_seqs,
            on_logits=on_logits,
            record=body.record,
        )
        self._speculator = Speculator(config.num_draft_tokens, body.texts)
        self._pace = pace(config)
        self._lookahead = looks_ahead(config, model.transformer)
        self._clock = clock
        self._live: dict[Sequence, Output] = {}
        self._ids: dict[str, Sequence] = {}
        self._in_flight: Flight | None = None
        self._arrivals = self.failed_steps = 0
        self._born = self._finished = clock()

    @property
    def has_work(self) -> bool:
        return bool(self._live) or self._in_flight is not None

    def add(self, request: GenerateRequest) -> None:
        """Queue a request.

        Raises:
            RefusedError: It could never run: no prompt, or more tokens than `capacity`.
            ValueError: A sequence with this id is running, or its prompt or params cannot be.
        """
        if request.id in self._ids:
            raise ValueError(f"a sequence with id {request.id!r} is running; ids must be unique")
        params, now = request.params, self._clock()
        check_params(params, self._vocab_size)
        check_token_ids("the prompt", request.prompt_token_ids, self._vocab_size)
        sequence = Sequence(
            id=request.id,
            tenant=request.tenant,
            prompt_token_ids=request.prompt_token_ids,
            params=params,
            arrival=self._arrivals,
            cache_salt=request.cache_salt,
            priority=request.priority,
            start_by=_after(now, self._config.max_queue_wait),
            expires_at=_after(now, request.deadline),
        )
        grammar = self._rules.add(sequence)
        detokenizer = Detokenizer(self._token_bytes, stop=params.stop)
        output = Output(sequence, detokenizer, grammar, eos=self._eos, added=now)
        self._ids[request.id], self._live[sequence] = sequence, output
        try:
            self.scheduler.add(sequence)
        except BaseException:
            self.abort(request.id)
            raise
        self._arrivals += 1

    def abort(self, id: str) -> None:
        """End a sequence without a further update; its blocks are free at once, or once
        the step in flight has run that writes to them.

        An unknown id, or one that has finished, is ignored.
        """
        sequence = self._ids.get(id)
        if sequence is not None:
            self._forget(sequence)
            self._remove(sequence)

    def step(self) -> list[SequenceUpdate]:
        """Compute one step, and say what it added to each sequence that got a token.

        The model's end-of-turn token finishes with `stop`; it is no text, and is not
        counted in `num_output_tokens`. With `max_tokens=0` a sequence finishes with
        `length` once its prompt is computed and cached. Where more than `max_queued` wait
        after this step's were chosen, the last of the fullest line finish with `refused`.

        A step that raises fails the sequences that it computed, and those of the step that was
        in flight beside it; the pool starts anew, and all others with it. What was computed
        for sequences before is told all the same.
        """
        updates: list[SequenceUpdate] = []
        try:
            self._step(updates)
        except BaseException as error:
            self._fail(error, updates)
            if not isinstance(error, Exception):
                raise
        return updates

    def _step(self, updates: list[SequenceUpdate]) -> None:
        running = self.scheduler.running.values()
        is_guessing = self._speculator.is_due(running)
        if is_guessing:  # guesses follow tokens that are known
            self._finish(updates)
            self._speculator.propose(running)
        begun = self._clock()
        for sequence, reason in self.scheduler.expire(begun):
            late = f"no place became free within {self._config.max_queue_wait} s"
            self._end(sequence, reason, updates, late if reason == "refused" else None)
        scheduler = self.scheduler
        if self._pace is not None:
            scheduler.prefill_limit = self._pace.limit(
                num_running=len(scheduler.running), num_waiting=len(scheduler.waiting)
            )
        step = scheduler.schedule()
        self._refuse(updates)
        if not step.scheduled:
            self._finish(updates)
            return
        step.begun = begun
        self._note_start(step)
        flight = self._runner.launch(step)
        self._runner.sample(flight, needs_host=False)
        self._finish(updates)  # of the step before, while this one runs
        self._runner.sample(flight, needs_host=True)
        self._in_flight = flight
        if is_guessing or not self._lookahead:
            self._finish(updates)

    def _finish(self, updates: list[SequenceUpdate]) -> None:
        """Wait for the step in flight, and publish what it sampled.

        What it sampled for a sequence that has ended meanwhile is dropped. Where the model
        computed what is no numbers, all that was computed before for that sequence is suspect.
        """
        flight = self._in_flight
        if flight is None:
            return
        now, live = self._clock(), self._live
        rejected: dict[str, int] = {}
        ended, broken = list[Sequence](), list[Sequence]()
        for one in self._runner.collect(flight, live):
            sequence, is_broken = one.entry.sequence, None in one.token_ids
            if is_broken:
                broken.append(sequence)
            output = live.get(sequence)
            if output is None:
                continue
            if one.entry.num_drafts:
                rejected[sequence.id] = self._judge(one)
            if one.prompt_logprobs:
                output.read(one)
            if one.entry.reaches_target or is_broken:
                updates.append(output.take(one, now))
                if output.finish_reason is not None:
                    self._forget(sequence)
                    ended.append(sequence)
        self.scheduler.commit(flight.step, rejected)
        for sequence in broken:
            self.scheduler.cache.forget(sequence)
        for sequence in ended:
            self._remove(sequence)
        self._in_flight = None
        self.failed_steps = 0
        self._time(flight.step, now)

    def _time(self, step: Step, now: float) -> None:
        """Note what a step took: since the one before, where they overlapped."""
        step.duration = now - max(step.begun, self._finished)
        self._finished = now
        if self._pace is not None:
            self._pace.observe(
                num_decodes=step.num_decodes,
                num_prefill_tokens=step.num_prefill_tokens,
                duration=step.duration,
            )

    def _judge(self, drawn: Drawn) -> int:
        """How many drafts were wrong; the speculator learns from it."""
        num_drafts, num_right = drawn.entry.num_drafts, len(drawn.token_ids) - 1
        self._speculator.judge(drawn.entry.sequence, num_drafts, num_right)
        return num_drafts - num_right

    def _forget(self, sequence: Sequence) -> Output | None:
        self._ids.pop(sequence.id, None)
        return self._live.pop(sequence, None)

    def _remove(self, sequence: Sequence) -> None:
        self.scheduler.remove(sequence)
        self._rules.remove(sequence)
        self._speculator.remove(sequence)

    def _fail(self, error: BaseException, updates: list[SequenceUpdate]) -> None:
        """End what the steps under way computed, and start with an empty pool."""
        self.failed_steps += 1
        _log.error("a step failed", exc_info=error)
        reason = f"the engine's step failed ({type(error).__name__}); its log says where"
        lost = self.scheduler.reset()
        if self._in_flight is not None:
            lost += [entry.sequence for entry in self._in_flight.step.scheduled]
            self._in_flight = None
        for sequence in lost:
            self._remove(sequence)
            output = self._forget(sequence)
            if output is not None:
                updates.append(output.end("error", error=reason))

    def stats(self) -> EngineStats:
        scheduler = self.scheduler
        return EngineStats(
            num_running=len(scheduler.running),
            num_queued=len(scheduler.waiting),
            num_queued_tokens=scheduler.waiting.num_tokens,
            num_blocks=scheduler.pool.num_blocks,
            num_free_blocks=scheduler.pool.num_free,
            num_cached_blocks=scheduler.pool.num_cached,
            steps=scheduler.steps,
            preemptions=scheduler.preemptions,
            prefix_tokens_queried=scheduler.prefix_tokens_queried,
            prefix_tokens_hit=scheduler.prefix_tokens_hit,
            draft_tokens_proposed=self._speculator.proposed,
            draft_tokens_accepted=self._speculator.accepted,
        )

    def explain(self, last: int) -> list[StepRecord]:
        """What is remembered of the `last` steps, oldest first."""
        return self.scheduler.explain(last, since=self._born)

    def _refuse(self, updates: list[SequenceUpdate]) -> None:
        """Only here is it known who really waits: the front's books lag by a step."""
        config = self._config
        for sequence in self.scheduler.overflow(config.max_queued, config.max_queued_tokens):
            self._end(sequence, "refused", updates)

    def _end(
        self,
        sequence: Sequence,
        reason: FinishReason,
        updates: list[SequenceUpdate],
        error: str | None = None,
    ) -> None:
        """End a sequence from outside of a step."""
        self._remove(sequence)
        output = self._forget(sequence)
        assert output is not None, "what runs or waits is live"
        updates.append(output.end(reason, error=error))

    def _note_start(self, step: Step) -> None:
        for entry in step.scheduled:
            if entry.output_index == 0:
                output = self._live[entry.sequence]
                if output.started is None:
                    output.started = step.begun


def _after(now: float, seconds: float | None) -> float | None:
    return None if seconds is None else now + seconds
