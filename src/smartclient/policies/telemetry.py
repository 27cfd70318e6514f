"""Report what happened to each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .._bill import bill_of
from .._call import Attempt, Call, Headers, Reply, Span
from .._clock import Clock
from .._errors import ExchangeError, RefusedError
from .._flow import Flow, Next, Outcome
from ..report import (
    AttemptReport,
    CacheReport,
    CallReport,
    Later,
    Stage,
    attempt_report,
    server_stages,
)
from ..wire import Adapter, Delta

if TYPE_CHECKING:  # loaded for the first report that is looked at, and the first lesson
    from ..catalog.lookup import CatalogLike
    from ..tokens import Calibrator

__all__ = ["Telemetry"]

_NO_GAPS: list[float] = []  # shared, never added to: an open stream holds little else
_MAX_GAPS = 65_536  # of a stream's gaps, so that an endless one does not fill the memory


class Telemetry:
    """Make one `CallReport` for each call, when its body has ended.

    Args:
        publish: Is given each report, which is put together once somebody asks for it.
        catalog: What calls are priced by; `None` takes the one that comes with this version.
        calibrator: Makes, or finds, what learns from calls that were counted before.
        counts_all: Count those that nobody counted when they are over, so that each teaches.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        publish: Callable[[Later], None],
        catalog: CatalogLike | None = None,
        calibrator: Callable[[], Calibrator] | None = None,
        counts_all: bool = False,
    ) -> None:
        self._clock, self._publish = clock, publish
        self._catalog, self._calibrator = catalog, calibrator
        self.counts_all = counts_all

    def flow(self, call: Call, call_next: Next) -> Flow[Reply]:
        try:
            reply = yield from call_next(call)
        except BaseException as error:  # also of a caller who is cancelled, or leaves
            watch = _Watch(call, self)
            watch.report(Outcome("failed", self._clock.monotonic(), _kind(error)))
            raise
        reply.taps.append(_Watch(call, self, status=reply.status, headers=reply.headers))
        return reply

    def ended(self, call: Call, notes: _Notes, outcome: Outcome) -> None:
        """Publish what is known at the end of `call`."""
        trace = call.trace
        # Neither the call, whose body may be large, nor the trace, which holds the report.
        known = (  # a `_Known`, once somebody asks for the report
            call.adapter,
            call.model,
            call.method,
            call.target,
            () if call.scope is None else call.scope.tags,
            trace.started,
            trace.prepared,
            trace.attempts,
            trace.backoffs,
            trace.cache,
            trace.budget_left,
            trace.downgraded,
        )
        trace.report = Later(partial(_report, notes, outcome, known, self._catalog))
        self._publish(trace.report)

    def learn(self, call: Call, outcome: Outcome) -> None:
        """Correct later counts by what `call` used."""
        trace, adapter, calibrator = call.trace, call.adapter, self._calibrator
        if calibrator is None or adapter is None or not trace.attempts:
            return
        last = trace.attempts[-1]
        usage = last.usage
        if usage is None or last.changes_input or last.model is None:
            return
        if outcome.kind != "complete" or usage.inconsistent is not None:
            return
        counted = trace.counted
        if counted is None:
            if not isinstance(call.body, bytes):  # read from somewhere, and gone
                return
            from ..tokens import count

            endpoint: Any = adapter.name
            # As it was sent: the payload is the caller's, who may have changed it since.
            counted = count(call.body, model=last.model, endpoint=endpoint, wait=False)
        calibrator().observe(counted, usage, provider=adapter.provider, model=last.model)


class _Watch:
    """Notes what a body says, and reports when it has ended."""

    __slots__ = ("_call", "_is_stream", "_notes", "_telemetry")

    def __init__(
        self,
        call: Call,
        telemetry: Telemetry,
        *,
        status: int | None = None,
        headers: Headers = Headers(),  # noqa: B008 - immutable
    ) -> None:
        self._call, self._telemetry = call, telemetry
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
        if delta.finish is not None:
            notes.finish = delta.finish

    def comment(self, text: str) -> None:
        name, _, value = text.strip().partition(" ")
        if name.lower() == "server-timing":
            self._notes.timings += (value,)

    def after(self, outcome: Outcome) -> Flow[None]:
        if self._telemetry.counts_all or self._call.trace.counted is not None:
            self._telemetry.learn(self._call, outcome)
        self.report(outcome)
        yield from ()

    def report(self, outcome: Outcome) -> None:
        """Publish what is known at the end."""
        self._telemetry.ended(self._call, self._notes, outcome)


class _Notes:
    """What a body has said."""

    __slots__ = ("finish", "first", "gaps", "headers", "last", "status", "timings")

    def __init__(self, status: int | None, headers: Headers) -> None:
        self.status, self.headers = status, headers
        self.first: float | None = None
        self.last: float | None = None
        self.gaps: list[float] = _NO_GAPS
        self.finish: str | None = None
        self.timings = tuple(headers.all("server-timing"))


class _Known(NamedTuple):
    """What a call and its trace come to."""

    adapter: Adapter | None
    model: str | None
    method: str
    target: str
    tags: tuple[str, ...]
    started: float
    prepared: float | None
    attempts: list[Attempt]
    backoffs: tuple[Span, ...]
    cache: CacheReport | None
    budget_left: Mapping[str, Mapping[str, float]] | None
    downgraded: str | None


def _report(
    notes: _Notes, outcome: Outcome, parts: tuple[object, ...], catalog: CatalogLike | None
) -> CallReport:
    known = _Known._make(parts)
    adapter, since = known.adapter, known.started
    last = known.attempts[-1] if known.attempts else None
    told: dict[str, Stage] = {}
    for timing in notes.timings:
        told |= server_stages(timing)
    attempts = _attempts(known, _placed(told, last, since), catalog)
    bill = bill_of(attempts)
    return CallReport(
        provider=adapter.provider if adapter else None,
        model=known.model,
        endpoint=f"{known.method} {known.target.partition('?')[0]}",
        status=notes.status,
        attempts=attempts,
        stages=_stages(notes, known, attempts[-1].stages if attempts else {}),
        reused=last.timeline.reused if last else None,
        protocol=last.timeline.protocol if last else None,
        duration=outcome.at - since,
        ttft=None if notes.first is None else notes.first - since,
        itl_p50=_median(notes.gaps),
        itl_max=max(notes.gaps, default=None),
        usage=bill.usage,
        cost=None if bill.total is None else float(bill.total),
        cost_at_least=None if bill.at_least is None else float(bill.at_least),
        cost_missing=bill.missing,
        cache=known.cache,
        budget_left=known.budget_left,
        downgraded=known.downgraded,
        tags=known.tags,
        finish=notes.finish,
        request_id=notes.headers.get(adapter.request_id_header) if adapter else None,
        server=told,
        error=outcome.error or (outcome.kind if outcome.kind != "complete" else None),
    )


def _attempts(
    known: _Known, server: dict[str, Stage], catalog: CatalogLike | None
) -> list[AttemptReport]:
    """Each with its price; only the last one is known to have passed the server's stages."""
    from ..catalog.attempts import priced

    last = known.attempts[-1] if known.attempts else None
    return [
        attempt_report(
            one,
            since=known.started,
            server=server if one is last else {},
            priced=priced(one, catalog),
        )
        for one in known.attempts
    ]


def _stages(notes: _Notes, known: _Known, last: dict[str, Stage]) -> dict[str, Stage]:
    """Those of the last attempt, and the call's own, which come first where both name one."""
    since, prepared, backoffs = known.started, known.prepared, known.backoffs
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
