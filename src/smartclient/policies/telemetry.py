"""Report what happened to each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from .._call import Attempt, Call, Headers, Reply, Span
from .._clock import Clock
from .._errors import ExchangeError, RefusedError
from .._flow import Flow, Next, Outcome
from ..report import CallReport, Later, Stage, attempt_report, server_stages
from ..wire import Adapter, Delta, Usage

__all__ = ["Telemetry"]

_NO_GAPS: list[float] = []  # shared, never added to: an open stream holds little else
_MAX_GAPS = 65_536  # of a stream's gaps, so that an endless one does not fill the memory


class Telemetry:
    """Make one `CallReport` for each call, when its body has ended.

    Args:
        publish: Is given each report, which is put together once somebody asks for it.
    """

    def __init__(self, *, clock: Clock, publish: Callable[[Later], None]) -> None:
        self._clock, self._publish = clock, publish

    def flow(self, call: Call, call_next: Next) -> Flow[Reply]:
        try:
            reply = yield from call_next(call)
        except BaseException as error:  # also of a caller who is cancelled, or leaves
            watch = _Watch(call, self._publish)
            watch.report(Outcome("failed", self._clock.monotonic(), _kind(error)))
            raise
        reply.taps.append(_Watch(call, self._publish, status=reply.status, headers=reply.headers))
        return reply


class _Watch:
    """Notes what a body says, and reports when it has ended."""

    __slots__ = ("_call", "_is_stream", "_notes", "_publish")

    def __init__(
        self,
        call: Call,
        publish: Callable[[Later], None],
        *,
        status: int | None = None,
        headers: Headers = Headers(),  # noqa: B008 - immutable
    ) -> None:
        self._call, self._publish = call, publish
        self._is_stream = call.is_stream  # a whole reply has no first event
        self._notes = _Notes(status, headers)

    def feed(self, delta: Delta, at: float) -> None:
        notes = self._notes
        if delta.has_tokens and self._is_stream:
            if notes.last is None:
                notes.first = at
            elif not notes.gaps:
                notes.gaps = [at - notes.last]
            elif len(notes.gaps) < _MAX_GAPS:
                notes.gaps.append(at - notes.last)
            notes.last = at
        if delta.usage is not None:
            notes.usage = delta.usage if notes.usage is None else notes.usage.updated(delta.usage)
        if delta.finish is not None:
            notes.finish = delta.finish

    def comment(self, text: str) -> None:
        name, _, value = text.strip().partition(" ")
        if name.lower() == "server-timing":
            self._notes.timings += (value,)

    def after(self, outcome: Outcome) -> Flow[None]:
        self.report(outcome)
        yield from ()

    def report(self, outcome: Outcome) -> None:
        """Publish what is known at the end."""
        call, trace = self._call, self._call.trace
        # Neither the call, whose body may be large, nor the trace, which holds the report.
        known = (call.adapter, call.model, call.method, call.target)
        times = (trace.started, trace.prepared, trace.attempts, trace.backoffs)
        budget = (trace.budget_left, trace.downgraded)
        trace.report = Later(partial(_report, self._notes, outcome, known, times, budget))
        self._publish(trace.report)


class _Notes:
    """What a body has said."""

    __slots__ = ("finish", "first", "gaps", "headers", "last", "status", "timings", "usage")

    def __init__(self, status: int | None, headers: Headers) -> None:
        self.status, self.headers = status, headers
        self.first: float | None = None
        self.last: float | None = None
        self.gaps: list[float] = _NO_GAPS
        self.usage: Usage | None = None
        self.finish: str | None = None
        self.timings = tuple(headers.all("server-timing"))


_Known: TypeAlias = "tuple[Adapter | None, str | None, str, str]"
_Times: TypeAlias = "tuple[float, float | None, list[Attempt], list[Span]]"
_Budget: TypeAlias = "tuple[Mapping[str, Mapping[str, float]] | None, str | None]"


def _report(
    notes: _Notes, outcome: Outcome, known: _Known, times: _Times, budget: _Budget
) -> CallReport:
    adapter, model, method, target = known
    since, _, tries, _ = times
    last = tries[-1] if tries else None
    told: dict[str, Stage] = {}
    for timing in notes.timings:
        told |= server_stages(timing)
    server = _placed(told, last, since)
    attempts = [
        attempt_report(one, since=since, server=server if one is last else {}) for one in tries
    ]
    return CallReport(
        provider=adapter.provider if adapter else None,
        model=model,
        endpoint=f"{method} {target.partition('?')[0]}",
        status=notes.status,
        attempts=attempts,
        stages=_stages(notes, times, attempts[-1].stages if attempts else {}),
        reused=last.timeline.reused if last else None,
        protocol=last.timeline.protocol if last else None,
        duration=outcome.at - since,
        ttft=None if notes.first is None else notes.first - since,
        itl_p50=_median(notes.gaps),
        itl_max=max(notes.gaps, default=None),
        usage=notes.usage,
        budget_left=budget[0],
        downgraded=budget[1],
        finish=notes.finish,
        request_id=notes.headers.get(adapter.request_id_header) if adapter else None,
        server=told,
        error=outcome.error or (outcome.kind if outcome.kind != "complete" else None),
    )


def _stages(notes: _Notes, times: _Times, last: dict[str, Stage]) -> dict[str, Stage]:
    """Those of the last attempt, and the call's own, which come first where both name one."""
    since, prepared, _, backoffs = times
    stages = dict(last)
    if prepared is not None:
        stages["prepare"] = Stage(0.0, prepared - since)
    if notes.first is not None and notes.last is not None:
        stages["ttft"] = Stage(0.0, notes.first - since)
        if notes.gaps:  # of a single event only the server knows how long it took
            stages["decode"] = Stage(notes.first - since, notes.last - notes.first)
    if backoffs:
        waited = sum(span.duration for span in backoffs)
        stages["backoff"] = Stage(backoffs[0].start - since, waited)
    return stages


def _kind(error: BaseException) -> str:
    match error:
        case ExchangeError():
            return error.kind
        case RefusedError():
            return "refused"
        case Exception():
            return type(error).__name__
        case _:
            return "cut"


def _placed(server: dict[str, Stage], last: Attempt | None, since: float) -> dict[str, Stage]:
    """The server's stages on the call's own time line: they begin when the request is sent."""
    sent = last.timeline.send if last else None
    if sent is None:
        return {}
    offset = sent.start - since
    return {name: Stage(offset + s.start, s.duration) for name, s in server.items()}


def _median(values: list[float]) -> float | None:
    """The middle value; the standard library's costs more to import than all of this file."""
    if not values:
        return None
    ordered, middle = sorted(values), len(values) // 2
    return (ordered[middle] + ordered[-middle - 1]) / 2
