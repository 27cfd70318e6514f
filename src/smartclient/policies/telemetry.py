"""Report what happened to each call."""

from __future__ import annotations

from collections.abc import Callable

from .._call import Call, Headers, Reply, Trace
from .._clock import Clock
from .._errors import ExchangeError, RefusedError
from .._flow import Flow, Next, Outcome
from ..report import CallReport, Stage, attempt_report, server_stages
from ..wire import Delta, Usage

__all__ = ["Telemetry"]

_MAX_GAPS = 65_536  # of a stream's gaps, so that an endless one does not fill the memory


class Telemetry:
    """Make one `CallReport` for each call, when its body has ended.

    Args:
        publish: Is given each report.
    """

    def __init__(self, *, clock: Clock, publish: Callable[[CallReport], None]) -> None:
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

    __slots__ = (
        "_call",
        "_finish",
        "_first",
        "_gaps",
        "_headers",
        "_is_stream",
        "_last",
        "_publish",
        "_server",
        "_status",
        "_usage",
    )

    def __init__(
        self,
        call: Call,
        publish: Callable[[CallReport], None],
        *,
        status: int | None = None,
        headers: Headers = Headers(),  # noqa: B008 - immutable
    ) -> None:
        self._call, self._publish = call, publish
        self._is_stream = call.is_stream  # a whole reply has no first event
        self._status, self._headers = status, headers
        self._first: float | None = None
        self._last: float | None = None
        self._gaps: list[float] = []
        self._usage: Usage | None = None
        self._finish: str | None = None
        self._server: dict[str, Stage] = {}
        timing = headers.get("server-timing")
        if timing:
            self._server = server_stages(timing)

    def feed(self, delta: Delta, at: float) -> None:
        if delta.has_tokens and self._is_stream:
            if self._last is None:
                self._first = at
            elif len(self._gaps) < _MAX_GAPS:
                self._gaps.append(at - self._last)
            self._last = at
        if delta.usage is not None:
            self._usage = delta.usage if self._usage is None else self._usage.updated(delta.usage)
        if delta.finish is not None:
            self._finish = delta.finish

    def comment(self, text: str) -> None:
        name, _, value = text.strip().partition(" ")
        if name.lower() == "server-timing":
            self._server |= server_stages(value)

    def after(self, outcome: Outcome) -> Flow[None]:
        self.report(outcome)
        yield from ()

    def report(self, outcome: Outcome) -> None:
        """Publish what is known at the end."""
        call, trace = self._call, self._call.trace
        last = trace.attempts[-1] if trace.attempts else None
        since = trace.started
        server = _placed(self._server, trace)
        error = outcome.error or (outcome.kind if outcome.kind != "complete" else None)
        adapter = call.adapter
        attempts = [
            attempt_report(one, since=since, server=server if one is last else {})
            for one in trace.attempts
        ]
        report = CallReport(
            provider=adapter.provider if adapter else None,
            model=call.model,
            endpoint=f"{call.method} {call.target.partition('?')[0]}",
            status=self._status,
            attempts=attempts,
            stages=self._stages(trace, attempts[-1].stages if attempts else {}),
            reused=last.timeline.reused if last else None,
            protocol=last.timeline.protocol if last else None,
            duration=outcome.at - since,
            ttft=None if self._first is None else self._first - since,
            itl_p50=_median(self._gaps),
            itl_max=max(self._gaps, default=None),
            usage=self._usage,
            finish=self._finish,
            request_id=self._headers.get(adapter.request_id_header) if adapter else None,
            server=self._server,
            error=error,
        )
        trace.report = report
        self._publish(report)

    def _stages(self, trace: Trace, last: dict[str, Stage]) -> dict[str, Stage]:
        """Those of the last attempt, and the call's own, which come first where both name one."""
        since, stages = trace.started, dict(last)
        if trace.prepared is not None:
            stages["prepare"] = Stage(0.0, trace.prepared - since)
        if self._first is not None and self._last is not None:
            stages["ttft"] = Stage(0.0, self._first - since)
            if self._gaps:  # of a single event only the server knows how long it took
                stages["decode"] = Stage(self._first - since, self._last - self._first)
        if trace.backoffs:
            waited = sum(span.duration for span in trace.backoffs)
            stages["backoff"] = Stage(trace.backoffs[0].start - since, waited)
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


def _placed(server: dict[str, Stage], trace: Trace) -> dict[str, Stage]:
    """The server's stages on the call's own time line: they begin when the request is sent."""
    sent = trace.attempts[-1].timeline.send if trace.attempts else None
    if sent is None:
        return {}
    offset = sent.start - trace.started
    return {name: Stage(offset + s.start, s.duration) for name, s in server.items()}


def _median(values: list[float]) -> float | None:
    """The middle value; the standard library's costs more to import than all of this file."""
    if not values:
        return None
    ordered, middle = sorted(values), len(values) // 2
    return (ordered[middle] + ordered[-middle - 1]) / 2
