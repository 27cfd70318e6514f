"""Send a call again when the failure is likely to pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from .._call import Call, Headers, Reply
from .._clock import Clock
from .._errors import ExchangeError
from .._flow import Flow, Next, close, peek, sleep
from ..wire import Failure

if TYPE_CHECKING:
    from random import Random

    from tenacity import RetryCallState

    # What tenacity's stop and wait objects are: functions of the attempt.
    Stop = Callable[[RetryCallState], bool]
    Wait = Callable[[RetryCallState], float]

__all__ = ["Retry", "retry_after"]

_RETRY_COUNT = "x-stainless-retry-count"  # of both official SDKs
_NEVER_SENT = frozenset({"resolve", "connect", "connect_timeout", "tls"})
_BROKEN = frozenset({"write", "read", "closed", "refused"})


class Retry:
    """Retry on connection failures and on what the provider calls transient.

    Covered until the first content event reaches the caller: after that, sending again
    would repeat tokens. A call that the server may have processed is sent again once at
    most, whatever `stop` says.

    Args:
        max_retries: How often a call is sent again; the last reply or error then reaches
            the caller. A call's own limit comes first.
        stop: A tenacity `stop` in place of `max_retries`. Its times are the clock's, and
            the wait that comes next is known to it.
        wait: Seconds to wait where the server names no time of its own, or none that is
            left, a tenacity `wait`; `None` draws from an exponentially growing range, 8 s
            at most.
        max_wait: Longest wait a server may ask for, in seconds. A longer one ends the
            retries: the caller learns of it now, not after the wait.
        wait_jitter: Added to a wait that the server asked for, drawn from zero to this
            share of it, so that clients told the same time do not come back together.
        resend: Whether a call whose connection broke after it was written is sent again.
        resend_after_timeout: Whether a call that got no answer in time is. The provider
            may do, and charge for, both.
        random: Where jitter comes from.

    Source:
        RFC 9110, section 10.2.3 (Retry-After).
    """

    def __init__(
        self,
        *,
        clock: Clock,
        max_retries: int = 3,
        stop: Stop | None = None,
        wait: Wait | None = None,
        max_wait: float = 60.0,
        wait_jitter: float = 0.1,
        resend: bool = True,
        resend_after_timeout: bool = False,
        random: Random | None = None,
    ) -> None:
        if max_wait < 0:
            raise ValueError(f"max_wait must be at least 0 s, not {max_wait:g}")
        if wait_jitter < 0:
            raise ValueError(f"wait_jitter must be at least 0, not {wait_jitter:g}")
        self._clock, self._max_retries, self._stop, self._wait = clock, max_retries, stop, wait
        self._max_wait, self._wait_jitter = max_wait, wait_jitter
        self._resend, self._resend_after_timeout = resend, resend_after_timeout
        self._random = random

    def flow(self, call: Call, call_next: Next) -> Flow[Reply]:
        started = self._clock.monotonic()
        doubtful = 0  # attempts that the server may have processed
        may_renew = call.is_renewable
        for attempt in count(1):
            try:
                reply = yield from call_next(_counted(call, attempt))
                failure = yield from peek(reply)
            except ExchangeError as error:
                doubtful += error.maybe_processed
                if not self._may_resend(call, error, doubtful):
                    raise
                delay = self._delay(call, attempt, asked=None, started=started)
                if delay is None:
                    raise
            else:
                doubtful += failure is not None and failure.kind == "incomplete"
                # Once: a fresh credential that is refused too says that another will not help.
                is_renewed = may_renew and reply.status == 401
                may_renew = may_renew and not is_renewed
                if not is_renewed and not self._may_repeat(call, reply, failure, doubtful):
                    return reply
                asked = retry_after(reply.headers, now=self._clock.now())
                delay = self._delay(call, attempt, asked=asked, started=started)
                if delay is None:
                    return reply
                yield from close(reply)
            yield from sleep(delay)
        raise AssertionError("unreachable")

    def _may_repeat(self, call: Call, reply: Reply, failure: Failure | None, doubtful: int) -> bool:
        if not _is_transient(failure, reply.headers) or not call.is_repeatable:
            return False
        # Ended early: its connection broke, though with a proper end, after it was written.
        is_doubtful = failure is not None and failure.kind == "incomplete"
        return not is_doubtful or (self._resend and doubtful <= 1)

    def _may_resend(self, call: Call, error: ExchangeError, doubtful: int) -> bool:
        if error.kind in _NEVER_SENT:
            return call.is_repeatable or error.sent == "nothing"
        if not call.is_repeatable:
            return False
        if error.kind in ("read_timeout", "first_event_timeout"):
            return self._resend_after_timeout and doubtful <= 1
        if error.kind in _BROKEN:
            return not error.maybe_processed or (self._resend and doubtful <= 1)
        return False

    def _delay(
        self, call: Call, attempt: int, *, asked: float | None, started: float
    ) -> float | None:
        """Seconds until the next attempt, or `None` to give up."""
        # Loaded at the first failure, as is all that only a failure needs.
        from tenacity import RetryCallState, Retrying
        from tenacity.stop import stop_after_attempt

        if (asked or 0.0) > self._max_wait:
            return None
        state = RetryCallState(Retrying(), fn=None, args=(), kwargs={})
        state.attempt_number = attempt
        state.start_time, state.outcome_timestamp = started, self._clock.monotonic()
        state.upcoming_sleep = delay = self._wait_of(state, asked)
        limit = call.max_retries if call.max_retries is not None else self._max_retries
        own_stop = self._stop if call.max_retries is None else None
        is_over = (own_stop or stop_after_attempt(limit + 1))(state)
        return None if is_over or not self._has_time(call, delay) else delay

    def _has_time(self, call: Call, delay: float) -> bool:
        """Whether the call's whole time leaves some of it after `delay` seconds."""
        total = call.timeout.total
        return total is None or self._clock.monotonic() + delay < call.trace.started + total

    def _wait_of(self, state: RetryCallState, asked: float | None) -> float:
        from random import Random

        from tenacity.wait import wait_random_exponential

        # A server that asks for no wait at all, by a date in the past for one, gets our own:
        # clients that come back at once, and together, are what it does not need.
        if not asked:
            return float((self._wait or wait_random_exponential(multiplier=0.5, max=8.0))(state))
        self._random = self._random or Random()
        return asked * (1.0 + self._random.uniform(0.0, self._wait_jitter))


def _counted(call: Call, attempt: int) -> Call:
    """`call`, which tells its number where an SDK tells it: it knows of one attempt only."""
    if attempt == 1 or call.headers.get(_RETRY_COUNT) is None:
        return call
    counted = call.headers.replaced(**{_RETRY_COUNT: str(attempt - 1)})
    return msgspec.structs.replace(call, headers=counted)


def _is_transient(failure: Failure | None, headers: Headers) -> bool:
    """Whether to try again: the server's own verdict first, then the kind of failure."""
    if failure is None:
        return False
    match headers.get("x-should-retry"):
        case "false":
            return False
        case "true":
            return True
        case _:
            return failure.is_transient


_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES = [
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        rf"[a-z]{{3}}, (?P<day>\d\d) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_TIME} GMT",
        rf"[a-z]{{6,9}}, (?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_TIME} GMT",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
    )
]


def retry_after(
    headers: Mapping[str, str] | Iterable[tuple[str, str]], *, now: float
) -> float | None:
    """Seconds that a server asks its clients to wait.

    `retry-after-ms` comes before `retry-after`, unless it cannot be read.

    Args:
        headers: Reply headers; names in any case.
        now: Wall time, in Unix seconds.

    Returns:
        At least 0.0, never capped; `None` when neither header is there and valid. A
        number may have decimals, but no sign; a date in the past is 0.0.

    Source:
        RFC 9110, sections 10.2.3 and 5.6.7 (the three forms of a date).
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found = {name.lower(): value for name, value in reversed(list(pairs))}
    in_ms = _number(found.get("retry-after-ms", ""))
    if in_ms is not None:
        return in_ms / 1000.0
    value = found.get("retry-after", "")
    seconds = _number(value)
    if seconds is not None:
        return seconds
    date = _date(value, now=now)
    return None if date is None else max(0.0, date - now)


def _number(value: str) -> float | None:
    value = value.strip(" \t")
    if not _NUMBER.fullmatch(value):
        return None
    number = float(value)
    return number if number != float("inf") else None


def _date(value: str, *, now: float) -> float | None:
    """Unix seconds of an HTTP date, or `None`."""
    from calendar import monthrange, timegm

    match = next((m for d in _DATES if (m := d.fullmatch(value.strip(" \t")))), None)
    if match is None or match["month"].lower() not in _MONTHS:
        return None
    year, month = int(match["year"]), _MONTHS.index(match["month"].lower()) + 1
    day, hour = int(match["day"]), int(match["hour"])
    minute, second = int(match["minute"]), int(match["second"])
    if len(match["year"]) == 2:
        year = _full_year(year, now=now)
    if not (year >= 1 and hour < 24 and minute < 60 and second <= 60):
        return None
    if not 1 <= day <= monthrange(year, month)[1]:
        return None
    return float(timegm((year, month, day, hour, minute, second, 0, 1, 0)))


def _full_year(short: int, *, now: float) -> int:
    """The year that ends in `short`, at most 50 years ahead (RFC 9110, section 5.6.7)."""
    this_year = 1970 + int(now // 31_556_952)
    year = this_year - this_year % 100 + short
    return year - 100 if year > this_year + 50 else year
