"""The limits of a call that no stage of its connection knows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from smartclient import ExchangeError
from smartclient._call import Timeout, Trace
from smartclient.testing import a_call
from smartclient.transports.patience import Patience

LIMITS = Timeout(first_event=60.0, idle=10.0)


def patience(*, stream=True, started=100.0, **limits):
    """Of an attempt that began at 100 s, and its timeline."""
    call = a_call(payload={"model": "tiny", "stream": stream})
    call = replace(call, timeout=replace(LIMITS, **limits), trace=Trace(started=started))
    attempt = call.trace.begin(call.origin, at=100.0)
    made = Patience(call, attempt)
    made.begin(100.0)
    return made, attempt


def headed(at=101.0, **what):
    made, attempt = patience(**what)
    attempt.status = 200
    made.head(at, is_stream=True)
    return made, attempt


def deadline_of(attempt):
    deadline = attempt.timeline.deadline
    return deadline and (deadline.limit, deadline.at)


def test_the_first_event_is_awaited_from_the_request_on():
    made, attempt = patience()
    assert deadline_of(attempt) == ("first_event", 160.0)

    made.head(120.0, is_stream=True)
    made.begin(120.0)

    assert deadline_of(attempt) == ("first_event", 160.0)


def test_content_starts_the_idle_limit_anew():
    made, attempt = headed()
    for now in (110.0, 119.0):
        made.begin(now)
        made.came(now + 1.0, content=True, whole=False)
    made.begin(125.0)

    assert deadline_of(attempt) == ("idle", 135.0)


def test_the_readers_own_time_is_no_silence():
    made, attempt = headed()
    made.begin(101.0)
    made.came(102.0, content=True, whole=False)
    made.begin(5000.0)

    assert deadline_of(attempt) == ("idle", 5010.0)


@pytest.mark.parametrize(
    ("has_begun", "kind", "limit"),
    [(False, "first_event_timeout", 60), (True, "idle_timeout", 10)],
)
def test_pings_do_not_count(has_begun, kind, limit):
    """Only pings came, and the stream was held open for ever (opencode-claude-auth PR#139)."""
    made, _ = headed(at=100.0)
    now = 100.0
    if has_begun:
        made.begin(now)
        made.came(now, content=True, whole=False)

    with pytest.raises(ExchangeError, match=f"{limit} s, and pings do not count") as caught:
        for _ in range(70):
            made.begin(now)
            now += 1.0
            made.came(now, content=False, whole=False)

    assert (caught.value.kind, caught.value.sent, now) == (kind, "all", 100.0 + limit)


def test_the_whole_call_has_its_time_over_all_attempts():
    made, attempt = patience(started=50.0, total=70.0)
    assert deadline_of(attempt) == ("total", 120.0)

    with pytest.raises(ExchangeError, match="was not done after 70 s, in stage ttft") as caught:
        made.begin(120.0)

    assert (caught.value.kind, caught.value.sent) == ("total_timeout", "nothing")


def test_bytes_that_trickle_do_not_prolong_the_whole():
    """A timeout of one second let a call last for minutes (openai-python#2599)."""
    made, _ = headed(total=5.0)
    made.begin(104.9)

    with pytest.raises(ExchangeError, match=r"timeout\.total is 5 s") as caught:
        made.came(105.0, content=True, whole=False)

    assert caught.value.kind == "total_timeout"


def test_after_the_terminal_event_nothing_is_awaited():
    made, attempt = headed(total=5.0)
    made.begin(102.0)
    made.came(103.0, content=True, whole=True)
    made.begin(500.0)

    assert deadline_of(attempt) is None


@pytest.mark.parametrize("total", [None, 30.0])
def test_a_reply_that_is_no_stream_has_only_the_whole_time(total):
    made, attempt = patience(total=total)
    made.head(101.0, is_stream=False)
    made.begin(101.0)

    assert deadline_of(attempt) == (total and ("total", 130.0))


def test_no_limit_is_no_deadline():
    _, attempt = headed(first_event=None)

    assert deadline_of(attempt) is None
