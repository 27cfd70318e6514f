"""Verdicts on what was sent again: how often, how soon, and whether it should have been.

Source: RFC 9110, sections 9.2.2 and 10.2.3; openai-python#2599 and #3555, litellm PR#7130
(retries that multiply), langchainjs#1929 (an exhausted quota is retried).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from .asked import asked_wait
from .entries import Entry
from .evidence import Evidence, VerdictRule, verdict_rule
from .sent import read_sent

__all__ = [
    "RETRY_RULES",
    "body_resent_empty",
    "duplicate_after_success",
    "replayed_stream",
    "retried_for_nothing",
    "retry_after_ignored",
    "retry_storm",
]

_Seen = Iterator[tuple[str, Sequence[Entry]]]

_RETRIED_4XX = frozenset({408, 409, 425, 429})
_NEVER_5XX = frozenset({501, 505})
_AT_ONCE = 0.05
_STEADY = 1.1


@verdict_rule
def retry_storm(evidence: Evidence) -> _Seen:
    """One call is tried too often, or again and again without waiting longer each time."""
    for tries in evidence.calls:
        waits = _own_waits(tries)
        is_poll = all(map(_is_poll, tries))
        if len(tries) > evidence.max_attempts and not is_poll:
            span = _wait(tries[0], tries[-1])
            yield (
                f"call {tries[0].call} was tried {len(tries)} times within {span:.3g} s; "
                f"at most {evidence.max_attempts} are in order",
                tries,
            )
        elif len(waits) >= 2 and max(waits) < _AT_ONCE:
            yield (
                f"call {tries[0].call} was tried {len(tries)} times, each at most "
                f"{max(waits) * 1000:.3g} ms after the one before; wait, and longer each time",
                tries,
            )
        elif len(waits) >= 3 and max(waits) < min(waits) * _STEADY and not is_poll:
            yield (
                f"call {tries[0].call} was tried {len(tries)} times, always "
                f"{min(waits):.3g} s apart; waits must grow",
                tries,
            )


@verdict_rule
def retry_after_ignored(evidence: Evidence) -> _Seen:
    """A try came earlier than the reply before it had asked for."""
    for earlier, later in evidence.retries:
        asked = asked_wait(earlier, reads_dates=evidence.is_real_time)
        if asked is None or earlier.credential != later.credential:  # other keys, other limits
            continue
        seconds, tolerance = asked
        waited = _wait(earlier, later)
        if waited < seconds - tolerance:
            yield (
                f"call {later.call} was asked to wait {seconds:.4g} s after attempt "
                f"{earlier.attempt}, and came back after {waited:.3g} s",
                (earlier, later),
            )


@verdict_rule
def retried_for_nothing(evidence: Evidence) -> _Seen:
    """A request was sent again that cannot pass: it is wrong, or money is used up, or the
    server said not to.
    """
    for earlier, later in evidence.retries:
        why = None if earlier.status == 404 and _is_poll(later) else _is_final(earlier)
        if why and earlier.credential == later.credential:
            yield (
                f"call {later.call} was sent again after {why}; it cannot pass unchanged",
                (earlier, later),
            )


@verdict_rule
def body_resent_empty(evidence: Evidence) -> _Seen:
    """A later try has no body, because what it was read from was used up by the first."""
    for earlier, later in evidence.retries:
        if earlier.body_bytes and not later.body_bytes:
            yield (
                f"attempt {earlier.attempt} of call {later.call} had {earlier.body_bytes} bytes "
                f"of body, attempt {later.attempt} had none; keep the body for all tries",
                (earlier, later),
            )


@verdict_rule
def duplicate_after_success(evidence: Evidence) -> _Seen:
    """A call was sent again after the server had answered it in full: it is paid for twice."""
    for earlier, later in evidence.retries:
        is_same = _sends_same(earlier, later) and not _same_key(earlier, later)
        if is_same and _was_answered(earlier):
            yield (
                f"attempt {earlier.attempt} of call {later.call} was answered in full with "
                f"{earlier.status}, and it was sent again without an idempotency-key",
                (earlier, later),
            )


@verdict_rule
def replayed_stream(evidence: Evidence) -> _Seen:
    """A stream was asked for again after content of it had gone out: text shows up twice."""
    for earlier, later in evidence.retries:
        if earlier.has_content and not earlier.is_success:
            yield (
                f"attempt {earlier.attempt} of call {later.call} broke off after content was "
                "sent, and it was sent again; raise with what has come, and let the caller choose",
                (earlier, later),
            )


def _wait(earlier: Entry, later: Entry) -> float:
    """Seconds from the reply's head, or from its end without one, to the next try.

    The longer of the two clocks' counts: a client waits in real time or on the server's clock.
    """
    since, since_real = earlier.head_at, earlier.head_real
    if since is None or since_real is None:
        since, since_real = earlier.ended_at, earlier.ended_real
    if since is None or since_real is None:
        since, since_real = earlier.received_at, earlier.asked_real
    return max(0.0, later.received_at - since, later.asked_real - since_real)


def _is_poll(entry: Entry) -> bool:
    """Whether it asks for what may come to be, and is no retry by its own word."""
    retries = entry.header("x-stainless-retry-count")
    return entry.method in ("GET", "HEAD") and entry.scope is None and retries in (None, "0")


def _own_waits(tries: Sequence[Entry]) -> list[float]:
    """Waits that the client chose itself; nothing was sent before a free replay."""
    return [
        _wait(earlier, later)
        for earlier, later in pairwise(tries)
        if earlier.reply_header("retry-after") is None
        and earlier.reply_header("retry-after-ms") is None
        and (earlier.sent_bytes or earlier.how != "cut")
    ]


def _is_final(entry: Entry) -> str | None:
    """Why a reply says that trying again is useless."""
    status = entry.status
    if status is None or status < 400:
        return None
    verdict = (entry.reply_header("x-should-retry") or "").lower()
    if verdict == "false":
        return f"a {status} with x-should-retry: false"
    if verdict == "true":
        return None
    if status == 429 and read_sent(entry).is_money:
        return f"a 429 that says {read_sent(entry).error}: no quota or credit is left"
    is_wrong = status < 500 and status not in _RETRIED_4XX
    return f"a {status}" if is_wrong or status in _NEVER_5XX else None


def _was_answered(entry: Entry) -> bool:
    """Whether a whole answer was sent: its bytes may all have come, and hold an error or no end."""
    sent = read_sent(entry)
    is_answer = entry.is_success and entry.status in range(200, 300)
    return is_answer and sent.has_end and sent.error is None


def _sends_same(earlier: Entry, later: Entry) -> bool:
    return earlier.key == later.key and earlier.api is not None


def _same_key(earlier: Entry, later: Entry) -> bool:
    key = earlier.header("idempotency-key")
    return key is not None and key == later.header("idempotency-key")


RETRY_RULES: tuple[VerdictRule, ...] = (
    retry_storm,
    retry_after_ignored,
    retried_for_nothing,
    body_resent_empty,
    duplicate_after_success,
    replayed_stream,
)
