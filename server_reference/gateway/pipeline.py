"""A request's way from its messages to an engine, and the engine's updates back as events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ..api.chat import ChatRequest
from ..api.errors import ApiError
from ..api.events import EndReason, Event, Failed, Finished, Started, TextDelta
from ..api.record import CallRecord
from ..api.service import Health, ModelCard
from ..core import GenerateRequest, SamplingParams, SequenceUpdate, StepRecord
from ..models.chat_template import ChatTemplateError
from ..models.registry import FrontModel
from ..processes.process import EngineUnavailableError
from .limits import Admission
from .metering import Meter
from .replicas import Replica
from .routing import Router
from .validation import check_length, check_model, fit

__all__ = ["Pipeline"]

_log = logging.getLogger(__name__)

# Beyond this many characters or messages, tokenizing would hold up the other streams noticeably.
_LONG_TEXT = 4096
_MANY_MESSAGES = 64


class Pipeline:
    """Tokenizes, checks, routes and runs the requests for one model.

    Args:
        model: Its tokenizer and chat template.
        router: Its replicas.
        admission: Refuses when too many wait.
        meter: Is charged for what was computed.
    """

    def __init__(
        self, model: FrontModel, router: Router, *, admission: Admission, meter: Meter
    ) -> None:
        self._model = model
        self._router = router
        self._admission = admission
        self._meter = meter
        self._created = int(time.time())

    def model(self) -> ModelCard:
        most = min([self._model.max_context, *(r.capacity for r in self._router.replicas)])
        return ModelCard(self._model.name, self._created, most)

    def health(self) -> Health:
        stats = [replica.stats for replica in self._router.replicas]
        return Health(self._router.is_ready, stats)

    async def steps(self, last: int) -> list[list[StepRecord] | None]:
        return list(await asyncio.gather(*(_steps(one, last) for one in self._router.replicas)))

    async def count_tokens(self, request: ChatRequest, record: CallRecord) -> int:
        check_model(request, served=self._model.name)
        with self._admission.admitted(None):  # no engine is asked, but threads are few
            prompt = await self._tokenize(request, record)
        record.input_tokens = len(prompt)
        record.outcome = "stop"
        return len(prompt)

    async def generate(
        self, request: ChatRequest, record: CallRecord
    ) -> AsyncGenerator[Event, None]:
        try:
            check_model(request, served=self._model.name)
            with self._admission.admitted(self._router.choose().stats):
                prompt = await self._tokenize(request, record)
                with record.timing("route"):
                    replica = self._router.choose()
                    params = fit(request, prompt_tokens=len(prompt), capacity=replica.capacity)
                run = _Run(request, record, prompt, params)
                async with aclosing(self._run(run, replica)) as events:
                    async for event in events:
                        yield event
        except ApiError as error:
            record.outcome = error.kind
            yield Failed(error)
        except Exception:  # a bug must not leave a client with half a stream
            _log.exception("request %s failed", record.id)
            record.outcome = "internal"
            what = "the server failed; its log has the reason under this request's id"
            yield Failed(ApiError("internal", what))

    async def _tokenize(self, request: ChatRequest, record: CallRecord) -> list[int]:
        record.note("gateway", 0.0, record.elapsed())
        with record.timing("tokenize"):
            check_length(
                request,
                longest_token=self._model.tokenizer.longest_token,
                max_context=self._model.max_context,
            )
            if _is_short(request):
                return self._encode(request)
            return await asyncio.to_thread(self._encode, request)

    def _encode(self, request: ChatRequest) -> list[int]:
        tokenizer = self._model.tokenizer
        try:
            prompt = self._model.chat_template.encode(tokenizer, request.messages)
        except ChatTemplateError as error:
            raise ApiError("invalid", str(error), param=request.messages_field) from error
        return prompt + tokenizer.encode(request.prefill)

    async def _run(self, run: _Run, replica: Replica) -> AsyncGenerator[Event, None]:
        run.begin()
        try:
            async with aclosing(replica.generate(run.sequence())) as updates:
                async for update in updates:
                    if update.finish_reason == "refused":
                        raise self._admission.refusal()
                    for event in run.events(update):
                        yield event
        except EngineUnavailableError as error:
            raise ApiError("overloaded", str(error), retry_after=1) from error
        finally:
            run.charge(self._meter, self._admission)


async def _steps(replica: Replica, last: int) -> list[StepRecord] | None:
    try:
        return await replica.explain(last)
    except EngineUnavailableError as error:
        _log.info("steps were asked for: %s", error)
        return None


def _is_short(request: ChatRequest) -> bool:
    characters = sum(len(message["content"]) for message in request.messages)
    characters += len(request.prefill)
    return characters < _LONG_TEXT and len(request.messages) < _MANY_MESSAGES


class _Run:
    """One request inside an engine: translates its updates, and keeps the record."""

    def __init__(
        self,
        request: ChatRequest,
        record: CallRecord,
        prompt: list[int],
        params: SamplingParams,
    ) -> None:
        self._record = record
        self._prompt = prompt
        self._params = params
        wanted = request.max_tokens
        self._ends_early = wanted is None or params.max_tokens < wanted
        self._handed_over = 0.0
        self._first: float | None = None
        self._latest: SequenceUpdate | None = None

    def sequence(self) -> GenerateRequest:
        return GenerateRequest(
            id=self._record.id,
            tenant=self._record.tenant,
            prompt_token_ids=self._prompt,
            params=self._params,
        )

    def begin(self) -> None:
        self._handed_over = self._record.elapsed()

    def events(self, update: SequenceUpdate) -> list[Event]:
        """What an update means; the first one starts the output.

        Raises:
            ApiError: The engine failed.
        """
        if update.finish_reason == "error":
            raise ApiError("internal", update.error or "the engine failed this request")
        self._latest = update
        events: list[Event] = []
        if self._first is None:
            events.append(self._start(update))
        if update.text:
            events.append(TextDelta(update.text))
        if update.finish_reason is not None:
            events.append(self._finish(update))
        return events

    def charge(self, meter: Meter, admission: Admission) -> None:
        """Meter what was computed, however the request ended."""
        update = self._latest
        if update is None:
            return
        self._record.output_tokens = update.num_output_tokens
        meter.add(
            self._record.tenant,
            input_tokens=len(self._prompt),
            cache_read=update.num_cached_tokens,
            output_tokens=update.num_output_tokens,
        )
        admission.waited(update.times.queue or 0.0)

    def _start(self, update: SequenceUpdate) -> Started:
        self._first = self._record.elapsed()
        queue, prefill = update.times.queue, update.times.prefill
        self._record.note("queue", self._handed_over, queue)
        self._record.note("prefill", self._handed_over + (queue or 0.0), prefill)
        self._record.input_tokens = len(self._prompt)
        self._record.cache_read = update.num_cached_tokens
        return Started(len(self._prompt), update.num_cached_tokens)

    def _finish(self, update: SequenceUpdate) -> Finished:
        self._record.note("decode", self._first or 0.0, update.times.decode)
        reason: EndReason
        match update.finish_reason:
            case "length":
                reason = "context" if self._ends_early else "length"
            case "stop_sequence":
                reason = "stop_sequence"
            case _:
                reason = "stop"
        self._record.outcome = reason
        return Finished(reason, update.num_output_tokens, update.stop_sequence)
