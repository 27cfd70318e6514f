"""A request's way from its messages to an engine, and the engine's updates back as events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ..api.chat import ChatRequest
from ..api.errors import ApiError
from ..api.events import Event, Failed
from ..api.record import CallRecord
from ..api.service import Health, ModelCard
from ..checkpoints.registry import FrontModel
from ..core import StepRecord
from ..processes.process import EngineUnavailableError
from .choices import interleaved
from .limits import Admission
from .metering import Meter
from .prompts import Prompts
from .replicas import Replica
from .routing import Router
from .run import Run
from .token_texts import TokenTexts
from .validation import check_model, check_tokens, fit

__all__ = ["Pipeline"]

_log = logging.getLogger(__name__)


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
        self._prompts = Prompts(model)
        self._texts = TokenTexts(model.tokenizer)
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
        with self._admission.admitted(
            None, tenant=record.tenant
        ):  # no engine is asked, but threads are few
            prompt = await self._tokenize(request, record)
        record.input_tokens = len(prompt)
        record.outcome = "stop"
        return len(prompt)

    async def generate(
        self, request: ChatRequest, record: CallRecord
    ) -> AsyncGenerator[Event, None]:
        try:
            check_model(request, served=self._model.name)
            check_tokens(request, vocab_size=self._model.tokenizer.vocab_size)
            stats = self._router.choose().stats
            tenant, n = record.tenant, request.n
            with self._admission.admitted(stats, tenant=tenant, num_sequences=n):
                prompt = await self._tokenize(request, record)
                with record.timing("route"):
                    replica = self._router.choose()
                    run = self._begin(request, record, prompt, replica)
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
            return await self._prompts.encode(request)

    def _begin(
        self, request: ChatRequest, record: CallRecord, prompt: list[int], replica: Replica
    ) -> Run:
        params = fit(request, prompt_tokens=len(prompt), capacity=replica.capacity)
        behind = 0 if replica.stats is None else replica.stats.num_queued_tokens
        return Run(request, record, prompt, params, texts=self._texts, behind=behind)

    async def _run(self, run: Run, replica: Replica) -> AsyncGenerator[Event, None]:
        try:
            streams = [replica.generate(sequence) for sequence in run.sequences()]
            async with aclosing(interleaved(streams)) as updates:
                async for index, update in updates:
                    if update.finish_reason == "refused":
                        raise self._admission.refusal(replica.stats, why=update.error)
                    for event in run.events(index, update):
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
