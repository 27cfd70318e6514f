"""One request inside an engine: what is asked of it, and what its updates mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

from ..api.chat import ChatRequest
from ..api.errors import ApiError
from ..api.events import (
    EndReason,
    Event,
    Finished,
    Logprob,
    Started,
    TextDelta,
    ToolCallFinished,
    ToolEvent,
)
from ..api.record import CallRecord
from ..core import GenerateRequest, SamplingParams, SequenceUpdate
from .grammars import holds_calls
from .limits import Admission
from .metering import Meter
from .token_texts import TokenTexts
from .tool_text import CLOSE, ToolText

__all__ = ["Run"]


class Run:
    """Translates updates into events, and keeps the call's record.

    Args:
        prompt: Token ids.
        params: Of its first answer; those of the others differ by the seed.
        texts: Names the tokens whose log-probabilities are told.
        behind: Tokens of prompts that waited when it came.
    """

    def __init__(
        self,
        request: ChatRequest,
        record: CallRecord,
        prompt: list[int],
        params: SamplingParams,
        *,
        texts: TokenTexts,
        behind: int = 0,
    ) -> None:
        self._request = request
        self._record = record
        self._prompt = prompt
        self._params = params
        self._texts = texts
        self._behind = behind
        wanted = request.max_tokens
        self._ends_early = wanted is None or params.max_tokens < wanted
        self._handed_over = 0.0
        self._first: float | None = None
        self._started: SequenceUpdate | None = None
        self._answers = [_Answer(request, index) for index in range(request.n)]

    def sequences(self) -> list[GenerateRequest]:
        """What the engine is to run: one for each answer.

        Raises:
            ApiError: The client has given up already.
        """
        self._handed_over = self._record.elapsed()
        left = self._record.time_left()
        if left is not None and left <= 0:
            raise self._too_late()
        id, num_answers = self._record.id, self._request.n
        return [
            GenerateRequest(
                id=id if num_answers == 1 else f"{id}-{index}",
                tenant=self._record.tenant,
                prompt_token_ids=self._prompt,
                params=self._params_of(index),
                deadline=left,
            )
            for index in range(num_answers)
        ]

    def _params_of(self, index: int) -> SamplingParams:
        """One answer's: only the first tells of the prompt, for which it is computed whole."""
        told = None if index else self._params.prompt_logprobs
        seed = _seed(self._params.seed, index)
        return replace(self._params, seed=seed, prompt_logprobs=told)

    def events(self, index: int, update: SequenceUpdate) -> list[Event]:
        """What an update of one answer means; the first one starts the output.

        So does the one that tells of the prompt, of whose request nothing is streamed.

        Raises:
            ApiError: The engine refused the request or failed.
        """
        match update.finish_reason:
            case "error":
                raise ApiError("internal", update.error or "the engine failed this request")
            case "invalid":
                what = update.error or "the engine cannot run this request"
                raise ApiError("invalid", what, param=self._grammars_field())
            case "deadline":
                self._answers[index].latest = update
                raise self._too_late()
        answer = self._answers[index]
        answer.latest = update
        events: list[Event] = []
        if self._first is None or update.prompt_logprobs:
            events.append(self._start(update))
        events += answer.output(update, self._texts.told(update.logprobs))
        if update.finish_reason is not None:
            events.append(self._finish(answer, update))
        return events

    def charge(self, meter: Meter, admission: Admission) -> None:
        """Meter what was computed, however the request ended."""
        started = self._started
        if started is None:
            return
        made = sum(one.latest.num_output_tokens for one in self._answers if one.latest is not None)
        self._record.output_tokens = made
        meter.add(
            self._record.tenant,
            input_tokens=len(self._prompt),
            cache_read=started.num_cached_tokens,
            output_tokens=made,
        )
        admission.waited(started.times.queue or 0.0, behind=self._behind)

    def _start(self, update: SequenceUpdate) -> Started:
        self._started = update
        self._first = self._record.elapsed()
        queue, prefill = update.times.queue, update.times.prefill
        self._record.note("queue", self._handed_over, queue)
        self._record.note("prefill", self._handed_over + (queue or 0.0), prefill)
        self._record.input_tokens = len(self._prompt)
        self._record.cache_read = update.num_cached_tokens
        told = self._texts.told(update.prompt_logprobs)
        return Started(len(self._prompt), update.num_cached_tokens, told)

    def _finish(self, answer: _Answer, update: SequenceUpdate) -> Finished:
        self._record.note("decode", self._first or 0.0, update.times.decode)
        stop = update.stop_sequence
        reason: EndReason = "stop"
        if update.finish_reason == "length":
            reason = "context" if self._ends_early else "length"
        elif update.finish_reason == "stop_sequence" and not self._ended_call(stop):
            reason = "stop_sequence"
        if reason == "stop":
            stop = None
            reason = "tool_calls" if answer.num_calls else "stop"
        self._record.outcome = reason
        return Finished(reason, update.num_output_tokens, stop, answer.index)

    def _ended_call(self, stop: str | None) -> bool:
        """Whether it was not the caller who asked to stop there: see `validation.fit`."""
        return stop == CLOSE and stop not in self._request.stop

    def _grammars_field(self) -> str | None:
        if self._params.grammar is None:
            return None
        return "tools" if holds_calls(self._request) else self._request.output_field

    def _too_late(self) -> ApiError:
        waited = self._record.elapsed()
        made = sum(one.latest.num_output_tokens for one in self._answers if one.latest is not None)
        return ApiError(
            "deadline",
            f"the client waits no longer: {waited:.1f} s have passed, and {made:,} tokens were "
            f"made; wait longer, lower max_tokens or stream",
        )


class _Answer:
    """One of a request's answers.

    Attributes:
        latest: Its latest update.
    """

    def __init__(self, request: ChatRequest, index: int) -> None:
        self.index = index
        self.latest: SequenceUpdate | None = None
        self._logprobs: list[Logprob] = []  # not told yet
        self._num_of_calls = 0  # the first so many of those are of calls
        names = [tool.name for tool in request.callable_tools]
        is_held = holds_calls(request)
        self._tools = ToolText(names, index=index, is_held=is_held) if names else None

    @property
    def num_calls(self) -> int:
        return 0 if self._tools is None else self._tools.num_calls

    def output(
        self, update: SequenceUpdate, logprobs: Iterable[Logprob]
    ) -> list[TextDelta | ToolEvent]:
        """The text and the calls of an update; what was held back comes with the last."""
        self._logprobs += logprobs
        is_last = update.finish_reason is not None
        was_closing = self._tools is not None and self._tools.is_closing
        events = self._parsed(update.text, is_last=is_last)
        if not self._logprobs:
            return events
        places = (at for at, one in enumerate(events) if isinstance(one, TextDelta))
        place = next(places, None)
        if place is None:
            if was_closing or any(isinstance(one, ToolCallFinished) for one in events):
                self._num_of_calls = len(self._logprobs)
            if not is_last:
                return events
            place = len(events)
            events.append(TextDelta("", self.index))
        text, told = events[place], tuple(self._logprobs)
        assert isinstance(text, TextDelta)
        events[place] = replace(text, logprobs=told, num_of_calls=self._num_of_calls)
        self._logprobs, self._num_of_calls = [], 0
        return events

    def _parsed(self, text: str, *, is_last: bool) -> list[TextDelta | ToolEvent]:
        if self._tools is None:
            return [TextDelta(text, self.index)] if text else []
        events = self._tools.feed(text)
        return events + self._tools.finish() if is_last else events


def _seed(seed: int | None, index: int) -> int | None:
    """An answer's seed: the caller's for the first one, and one made of it for each other."""
    if seed is None or index == 0:
        return seed
    digest = sha256(f"{seed}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
