"""What happened to a call: where its time and its tokens went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ._bill import bill_of, dollars
from ._call import Attempt, Span, Timeline
from .wire import Served, Usage

if TYPE_CHECKING:
    from decimal import Decimal

    from .catalog import Cost
else:
    Cost = Any  # loaded with the first price

__all__ = [
    "STAGES",
    "AttemptReport",
    "CacheReport",
    "CallReport",
    "Later",
    "Stage",
    "attempt_report",
    "server_stages",
    "timeline_stages",
]

STAGES = (
    "prepare pace pool dns tcp tls send gateway tokenize route queue prefill ttft decode backoff"
).split()
"""Every stage, in the order in which a call passes them; `docs/explanation/architecture.md`."""


class Stage(Struct, frozen=True):
    """A stretch of a call, in seconds; `start` counts from the start of the call."""

    start: float
    duration: float


class AttemptReport(Struct, frozen=True, kw_only=True):
    """One try of the call.

    Attributes:
        number: Counted from 1.
        status: `None` when no reply came.
        error: What kind of `ExchangeError` ended it; `incomplete` for a stream that ended
            before any content.
        maybe_processed: The answer did not come, or not all of it, but the server may have
            done the work.
        reused: The connection was open already.
        stages: Those of its connection and of the server.
        model: Which its own request asked for.
        served: How it was served, by its reply and else by its request.
        usage: Tokens that its reply told of; the least that it used, where it was cut.
        priced: Dollars for each part of that, exactly; `None` where the model is not known.
    """

    number: int
    origin: str
    start: float
    duration: float
    status: int | None
    error: str | None
    maybe_processed: bool
    reused: bool
    stages: dict[str, Stage]
    model: str | None = None
    served: Served | None = None
    usage: Usage | None = None
    priced: Cost | None = None


class CacheReport(Struct, frozen=True, kw_only=True):
    """What became of the provider's prompt cache in one call. Unknown is `None`.

    Attributes:
        placed: Where we put marks, as JSON paths such as `system[1]`; the caller's own are
            not among them.
        unmarked: Why we placed none, where we placed none.
        predicted_read: Input tokens that we expected to be read from the cache.
        actual_read: Those that were.
        miss: Why less was read than the request shares with earlier ones, in one word of
            `docs/reference/cache-misses.md`; `None` where nothing was missed.
        why: The same in a sentence, with its numbers, and what to do.
        drift_path: JSON path of the first difference to the request before, where that is
            the reason.
        drift: The same in a sentence, with kind, tokens and dollars.
        savings: Dollars that the cache saved, net of what writing to it cost; negative where
            it cost more.
        provider: What the provider itself says about the miss, as it said it.
    """

    placed: tuple[str, ...] = ()
    unmarked: str | None = None
    predicted_read: int | None = None
    actual_read: int | None = None
    miss: str | None = None
    why: str | None = None
    drift_path: str | None = None
    drift: str | None = None
    savings: float | None = None
    provider: Mapping[str, Any] | None = None


class CallReport(Struct, frozen=True, kw_only=True):
    """Where every millisecond and every token of one call went. Unknown is `None`, never 0.

    Attributes:
        provider: `anthropic` or `openai`; `None` when no adapter knows the endpoint.
        endpoint: Method and path.
        status: HTTP status of the last reply.
        attempts: Every try, in order.
        stages: By name, as `docs/explanation/architecture.md` lists them.
        reused: Whether the last attempt found an open connection.
        protocol: Such as `HTTP/1.1`.
        duration: From the start of the call to the end of the body, in seconds.
        ttft: From the start of the call to the first event with tokens, in seconds.
        itl_p50: Median gap between two such events, in seconds.
        itl_max: Longest such gap, in seconds.
        usage: Tokens, as the provider counted them, of every attempt together.
        cost: Dollars of every attempt together, as the nearest float to `exact_cost`; `None`
            as long as something is missing.
        cost_at_least: Dollars of what is known.
        cost_missing: What is not known: a price, the final counts of an answer that was cut.
        cache: What became of the prompt cache, where somebody looked.
        budget_left: Of each budget of the call: dollars, tokens or requests.
        downgraded: What a budget without room changed in the request.
        tags: Of the `smartclient.scope` blocks that the call was made in, the outermost first.
        finish: Why the model stopped, in the provider's word.
        request_id: What to quote to the provider.
        server: Stages as the server told them, `start` counting from the call's arrival.
        error: Why the call failed: the kind of error; `incomplete` or `cut` for a body that
            ended early, `cut` also for a call that was cancelled.
    """

    provider: str | None
    model: str | None
    endpoint: str
    status: int | None = None
    attempts: list[AttemptReport] = msgspec.field(default_factory=list)
    stages: dict[str, Stage] = msgspec.field(default_factory=dict)
    reused: bool | None = None
    protocol: str | None = None
    duration: float | None = None
    ttft: float | None = None
    itl_p50: float | None = None
    itl_max: float | None = None
    usage: Usage | None = None
    cost: float | None = None
    cost_at_least: float | None = None
    cost_missing: tuple[str, ...] = ()
    cache: CacheReport | None = None
    budget_left: Mapping[str, Mapping[str, float]] | None = None
    downgraded: str | None = None
    tags: tuple[str, ...] = ()
    finish: str | None = None
    request_id: str | None = None
    server: dict[str, Stage] = msgspec.field(default_factory=dict)
    error: str | None = None

    @property
    def exact_cost(self) -> Decimal | None:
        """`cost` without any rounding, for sums over many calls."""
        return bill_of(self.attempts).total

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        from decimal import Decimal

        plain: dict[str, Any] = _plain(msgspec.to_builtins(self, builtin_types=(Decimal,)), Decimal)
        return plain

    def waterfall(self, width: int = 78) -> str:
        """The call as a picture: one line for each stage, in the order of their start."""
        return "\n".join([*self._heading(), *self._bars(width), *self._totals()])

    def __str__(self) -> str:
        return self.waterfall()

    def _heading(self) -> list[str]:
        took = "" if self.duration is None else f"  {_ms(self.duration)}"
        state = self.error or ("" if self.status is None else str(self.status))
        first = f"{self.endpoint}  {self.model or ''}  {state}{took}"
        tries = f"{len(self.attempts)} attempts" if len(self.attempts) != 1 else "1 attempt"
        opened = {True: "reused connection", False: "new connection", None: ""}[self.reused]
        second = ", ".join(part for part in (tries, opened, self.protocol or "") if part)
        return [first, f"  {second}"]

    def _bars(self, width: int) -> list[str]:
        known = [(name, self.stages[name]) for name in STAGES if name in self.stages]
        total = max([self.duration or 0.0, *(s.start + s.duration for _, s in known)], default=0.0)
        room = max(10, width - 24)
        lines = []
        for name, stage in known:
            scale = room / total if total else 0.0
            left = min(int(stage.start * scale), room - 1)
            length = min(max(1, round(stage.duration * scale)), room - left)
            bar = (" " * left + ("▇" if stage.duration else "·") * length).ljust(room)
            lines.append(f"  {name:<9}{bar} {_ms(stage.duration):>11}")
        return lines

    def _totals(self) -> list[str]:
        lines = []
        if self.ttft is not None:
            gaps = "" if self.itl_p50 is None else f", gaps {_ms(self.itl_p50)} (median)"
            lines.append(f"  first token after {_ms(self.ttft)}{gaps}")
        if self.usage is not None:
            counts = {
                "uncached": self.usage.uncached,
                "read from cache": self.usage.cache_read,
                "written to cache": sum((self.usage.cache_write or {}).values()) or None,
                "output": self.usage.output,
            }
            told = [f"{count:,} {name}" for name, count in counts.items() if count is not None]
            lines.append(f"  tokens: {', '.join(told)}")
        return [*lines, *self._money(), *self._cache(), *self._budgets()]

    def _money(self) -> list[str]:
        if self.cost is None:
            is_quiet = self.usage is None and self.ttft is None  # not every call costs
            if is_quiet or not self.cost_missing:
                return []
            least = (
                "" if self.cost_at_least is None else f"; at least {dollars(self.cost_at_least)}"
            )
            return [f"  cost unknown, for want of {', '.join(self.cost_missing)}{least}"]
        usage = self.usage or Usage()
        if not usage.input_tokens or usage.cache_read is None:
            return [f"  {dollars(self.cost)}"]
        read = f"{usage.cache_read:,} of {usage.input_tokens:,} tokens"
        return [f"  {dollars(self.cost)} (read from cache {read})"]

    def _cache(self) -> list[str]:
        if self.cache is None or self.cache.miss is None:
            return []
        return [f"  cache miss: {self.cache.why or self.cache.miss}"]

    def _budgets(self) -> list[str]:
        return [
            f"  budget {name}: {', '.join(_amount(*each) for each in left.items())} left"
            for name, left in (self.budget_left or {}).items()
        ]


class Later:
    """A report that is put together once somebody asks for it: most are never looked at."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], CallReport]) -> None:
        self._make: Callable[[], CallReport] | None = make
        self._made: dict[str, CallReport] = {}

    def get(self) -> CallReport:
        """The report; the same one each time, for whichever thread."""
        make = self._make
        if make is not None:
            self._made.setdefault("report", make())  # in one step: others may ask at once
            self._make = None  # with what it was made of
        return self._made["report"]


def _amount(unit: str, number: float) -> str:
    return dollars(number) if unit == "dollars" else f"{number:,.0f} {unit}"


def _plain(value: Any, exact: type[Decimal]) -> Any:
    """`value` with floats in the place of `exact` numbers."""
    if isinstance(value, dict):
        return {name: _plain(one, exact) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one, exact) for one in value]
    return float(value) if isinstance(value, exact) else value


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"


def timeline_stages(timeline: Timeline, *, since: float) -> dict[str, Stage]:
    """The stages of one connection, in seconds from `since`."""
    stages = {
        name: _stage(span, since=since)
        for name in ("pool", "dns", "tcp", "tls", "send")
        if (span := getattr(timeline, name)) is not None
    }
    if timeline.reused and timeline.send is not None:
        start = timeline.send.start - since
        stages = {name: Stage(start, 0.0) for name in ("dns", "tcp", "tls")} | stages
    return stages


def _stage(span: Span, *, since: float) -> Stage:
    return Stage(span.start - since, span.duration)


def server_stages(text: str) -> dict[str, Stage]:
    """Read a `Server-Timing` value: `name;dur=1.5;start=0.2, ...`, in milliseconds.

    `start` is our server's own parameter; without it a stage begins where the one before
    it ended. Entries that cannot be read are passed over.

    Source: W3C Server Timing, section 4 (the header's grammar).
    """
    stages: dict[str, Stage] = {}
    end = 0.0
    for entry in text.split(","):
        name, *rest = (piece.strip() for piece in entry.split(";"))
        told = dict(pair.split("=", 1) for pair in rest if "=" in pair)
        try:
            duration = float(told["dur"]) / 1000.0
            start = float(told["start"]) / 1000.0 if "start" in told else end
        except (KeyError, ValueError):
            continue
        if name and 0.0 <= duration < inf and 0.0 <= start < inf:
            stages[name] = Stage(start, duration)
            end = start + duration
    return stages


def attempt_report(
    attempt: Attempt, *, since: float, server: Mapping[str, Stage], priced: Cost | None = None
) -> AttemptReport:
    """What one attempt came to, with times from `since`."""
    ended = attempt.ended if attempt.ended is not None else attempt.started
    return AttemptReport(
        number=attempt.number,
        origin=str(attempt.origin),
        start=attempt.started - since,
        duration=ended - attempt.started,
        status=attempt.status,
        error=attempt.error,
        maybe_processed=attempt.maybe_processed,
        reused=attempt.timeline.reused,
        stages=dict(server) | timeline_stages(attempt.timeline, since=since),
        model=attempt.model,
        served=attempt.billed_as,
        usage=attempt.usage,
        priced=priced,
    )
