"""The cases of retries, counts of tokens, the prompt cache, bodies, characters and secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server_reference.scripted.request import Received

from .cases import Case, error, said

__all__ = ["CASES"]

_PATIENT = 8.0


def _again(**changes: Any) -> Case:
    """The first try fails, the second is answered."""
    return Case(times=1, attempts=2, stream=False, patience=_PATIENT, **changes)


def _final(**changes: Any) -> Case:
    """Sending again is wrong."""
    return error(attempts=1, stream=False, patience=_PATIENT, **changes)


def _many_marks(received: Received) -> bool:
    return received.body.count(b"cache_control") > 4


def _short_first(received: Received) -> bool:
    long, short = received.body.find(b'"1h"'), received.body.find(b'"5m"')
    return 0 <= short < long


def _half_pair(received: Received) -> bool:
    return b"\\ud83d" in received.body.lower()


_RETRY: Mapping[str, Case] = {
    # Two calls, to see whether the second one waits for the limit to be there again.
    "no_requests_left": Case(
        parameters={"reset": 1.0},
        plan="ask ask",
        right="answer answer",
        paced=0.9,
        stream=False,
        later="pacing",
    ),
    "no_reply": _again(keyed=True, later="an idempotency key"),
    "quota_exceeded": _final(status=429),
    "refused_status": _again(),
    "reset_before_reply": _again(keyed=True, later="an idempotency key"),
    "retry_after_date": _again(parameters={"seconds": 1.0}),
    "retry_after_empty": _again(),
    "retry_after_far_year": _again(),
    "retry_after_fraction": _again(),
    "retry_after_huge": _final(status=429),
    "retry_after_infinite": _again(),
    "retry_after_ms": _again(),
    "retry_after_nan": _again(),
    "retry_after_negative": _again(),
    "retry_after_past": _again(),
    "retry_after_word": _again(),
    "should_not_retry": _final(status=429),
    "should_retry": _again(),
}

_COUNTS: Mapping[str, Case] = {
    "cached_usage": Case(helper=True, usage=(12307, 0, 550)),
    "cumulative_usage": Case(helper=True),
    "no_usage": Case(helper=True, usage=None),
    "reasoning_usage": Case(helper=True, usage=(7, 0, 100)),
    "zero_usage": Case(helper=True, usage=(0, 0, 0)),
    "nothing_cached": Case(plan="marked", helper=True, warned=True, later="cache hints"),
    "too_many_breakpoints": Case(
        plan="marked", when=_many_marks, attempts=1, stream=False, later="cache hints"
    ),
    "ttl_order": Case(
        plan="unordered", when=_short_first, attempts=1, stream=False, later="cache hints"
    ),
}

_BODY: Mapping[str, Case] = {
    "chained_encodings": error(stream=False),
    "gzip_broken": error(parameters={"after": 6}, itl=0.05),
    "gzip_cut": error(stream=False),
    "gzip_flushed": Case(),
    "gzip_members": Case(),
    "gzip_unflushed": Case(),
    "refused_encoding": Case(stream=False),
    "unknown_encoding": error(stream=False),
    "zero_length_chunks": Case(),
    "zstd_frames": Case(right="answer|error"),
    "invalid_utf8": said("\ufffd(\ufffd"),
    "lone_surrogate": Case(
        plan="ask reply", right="answer|altered|error answer|error", stream=False, times=1
    ),
    "surrogate_refused": Case(plan="half", when=_half_pair, right="answer|error", stream=False),
    "set_cookie_secret": Case(stream=False, secret="secret-of-the-session"),
}

CASES: Mapping[str, Case] = {**_RETRY, **_COUNTS, **_BODY}
