"""The limits of a call that no stage of its connection knows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from smartclient import ExchangeError
from smartclient._call import Timeout, Trace
from smartclient.testing import a_call
from smartclient.transports import patience
from smartclient.transports.patience import Patience

LIMITS = Timeout(first_event=60.0, idle=10.0)


class Waits:
    """The patience of an attempt that began at 100 s of real time, 7 s by the client's clock."""

    def __init__(self, *, stream=True, ago=0.0, **limits):
        call = a_call(payload={"model": "tiny", "stream": stream})
        trace = Trace(started=7.0 - ago)
        call = replace(call, timeout=replace(LIMITS, **limits), trace=trace)
        self.attempt = trace.begin(call.origin, at=7.0)
        self.at(100.0)
        self.patience = Patience(call, self.attempt, 7.0)
        self.patience.begin()

    def at(self, now):
        REAL.now = now
        return self

    def head(self, now, *, is_stream=True):
        self.attempt.status = 200
        self.at(now).patience.head(is_stream=is_stream)
        return self

    def begin(self, now):
        self.at(now).patience.begin()

    def came(self, now, *, content, whole=False):
        self.at(now).patience.came(content=content, whole=whole)

    @property
    def deadline(self):
        deadline = self.attempt.timeline.deadline
        return deadline and (deadline.limit, deadline.at)


class REAL:
    now = 0.0


@pytest.fixture(autouse=True)
def real_time(monkeypatch):
    monkeypatch.setattr(patience, "REAL", lambda: REAL.now)


def test_the_first_event_is_awaited_from_the_request_on():
    waits = Waits()
    assert waits.deadline == ("first_event", 160.0)

    waits.head(120.0).begin(120.0)

    assert waits.deadline == ("first_event", 160.0)


def test_content_starts_the_idle_limit_anew():
    waits = Waits().head(101.0)
    for now in (110.0, 119.0):
        waits.begin(now)
        waits.came(now + 1.0, content=True)
    waits.begin(125.0)

    assert waits.deadline == ("idle", 135.0)


def test_the_readers_own_time_is_no_silence():
    waits = Waits().head(101.0)
    waits.begin(101.0)
    waits.came(102.0, content=True)
    waits.begin(5000.0)

    assert waits.deadline == ("idle", 5010.0)


@pytest.mark.parametrize(
    ("has_begun", "kind", "limit"),
    [(False, "first_event_timeout", 60), (True, "idle_timeout", 10)],
)
def test_pings_do_not_count(has_begun, kind, limit):
    """Only pings came, and the stream was held open for ever (opencode-claude-auth PR#139)."""
    waits, now = Waits().head(100.0), 100.0
    if has_begun:
        waits.begin(now)
        waits.came(now, content=True)

    with pytest.raises(ExchangeError, match=f"{limit} s, and pings do not count") as caught:
        for _ in range(70):
            waits.begin(now)
            now += 1.0
            waits.came(now, content=False)

    assert (caught.value.kind, caught.value.sent, now) == (kind, "all", 100.0 + limit)


def test_the_whole_call_has_its_time_over_all_attempts():
    waits = Waits(ago=50.0, total=70.0)
    assert waits.deadline == ("total", 120.0)

    with pytest.raises(ExchangeError, match="was not done after 70 s, in stage ttft") as caught:
        waits.begin(120.0)

    assert (caught.value.kind, caught.value.sent) == ("total_timeout", "nothing")


def test_bytes_that_trickle_do_not_prolong_the_whole():
    """A timeout of one second let a call last for minutes (openai-python#2599)."""
    waits = Waits(total=5.0).head(101.0)
    waits.begin(104.9)

    with pytest.raises(ExchangeError, match=r"timeout\.total is 5 s") as caught:
        waits.came(105.0, content=True)

    assert caught.value.kind == "total_timeout"


def test_after_the_terminal_event_nothing_is_awaited():
    waits = Waits(total=5.0).head(101.0)
    waits.begin(102.0)
    waits.came(103.0, content=True, whole=True)
    waits.begin(500.0)

    assert waits.deadline is None


@pytest.mark.parametrize("total", [None, 30.0])
def test_a_reply_that_is_no_stream_has_only_the_whole_time(total):
    waits = Waits(total=total).head(101.0, is_stream=False)
    waits.begin(101.0)

    assert waits.deadline == (total and ("total", 130.0))


def test_no_limit_is_no_deadline():
    assert Waits(first_event=None).head(101.0).deadline is None
