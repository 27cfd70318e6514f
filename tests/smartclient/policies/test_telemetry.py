"""One report for each call, when its body has ended."""

from __future__ import annotations

import asyncio
import sys
from decimal import Decimal

import msgspec
import pytest

from smartclient._call import Origin, Span
from smartclient._errors import ExchangeError, RefusedError
from smartclient._flow import Outcome, exchange
from smartclient._scope import Scope
from smartclient.policies import telemetry
from smartclient.policies.telemetry import Telemetry
from smartclient.report import CacheReport, Stage
from smartclient.testing import ManualClock, a_call, a_reply, play
from smartclient.tokens import Calibrator, TokenCount
from smartclient.wire import Delta, Failure, Usage

TOKENS = Delta(has_tokens=True)
COMPLETE = Outcome("complete", 9.0)


def watched(call=None, reply=None, **headers):
    """A tap on a reply, and the reports that it makes."""
    reports = []
    call = call or a_call()
    flow = Telemetry(clock=ManualClock(5.0), publish=reports.append).flow(call, exchange)
    reply, _ = play(flow, [reply or a_reply(200, **headers)])
    return reply.taps[0], reports


def report_of(tap, reports, outcome=COMPLETE):
    play(tap.after(outcome), [])
    return reports[0].get()


def test_nothing_is_reported_before_the_body_has_ended():
    tap, reports = watched()

    tap.feed(TOKENS, 1.0)

    assert reports == []


def test_the_report_names_the_call():
    report = report_of(*watched(request_id="req_1"))

    assert (report.provider, report.model, report.endpoint) == (
        "anthropic",
        "tiny",
        "POST /v1/messages",
    )
    assert (report.status, report.request_id, report.duration, report.error) == (
        200,
        "req_1",
        9.0,
        None,
    )


def test_a_call_of_an_unknown_format_is_reported_too():
    report = report_of(*watched(a_call(path="/v1/files?purpose=x", payload={})))

    assert (report.provider, report.endpoint, report.request_id) == (None, "POST /v1/files", None)


STREAMED = {"model": "tiny", "messages": [], "stream": True}


def test_the_first_token_and_the_gaps_are_timed():
    tap, reports = watched(a_call(payload=STREAMED))

    for delta, at in [(Delta(), 1.0), (TOKENS, 2.0), (TOKENS, 2.5), (Delta(), 3.0), (TOKENS, 4.0)]:
        tap.feed(delta, at)
    report = report_of(tap, reports)

    assert (report.ttft, report.itl_p50, report.itl_max) == (2.0, 1.0, 1.5)
    assert report.stages["ttft"] == Stage(0.0, 2.0)
    assert report.stages["decode"] == Stage(2.0, 2.0)


@pytest.mark.parametrize("payload", [None, STREAMED], ids=["whole", "one-event"])
def test_the_server_tells_how_long_a_decode_took_that_came_at_once(payload):
    call = a_call(payload=payload)
    call.trace.begin(call.origin, at=1.0).timeline.send = Span(1.0, 1.0)
    tap, reports = watched(call, server_timing="decode;dur=500;start=100")

    tap.feed(TOKENS, 2.0)
    report = report_of(tap, reports)

    assert report.stages["decode"] == Stage(1.1, 0.5)


def test_a_reply_that_is_not_streamed_has_no_first_token():
    tap, reports = watched()

    tap.feed(TOKENS, 2.0)

    assert report_of(tap, reports).ttft is None


def test_without_tokens_no_time_is_made_up():
    report = report_of(*watched())

    assert report.ttft is report.itl_p50 is report.itl_max is report.usage is None
    assert "ttft" not in report.stages


def test_the_reason_to_stop_is_the_last_one_told():
    tap, reports = watched()

    tap.feed(Delta(finish="end_turn"), 2.0)
    tap.feed(Delta(), 3.0)

    assert report_of(tap, reports).finish == "end_turn"


USED = Usage(uncached=1000, cache_read=0, cache_write={}, output=1000)


def a_paid_call(*usages, model="claude-opus-5", **facts):
    """A call of which each attempt used so much."""
    call = a_call(payload={"model": model, "messages": []})
    for number, usage in enumerate(usages):
        attempt = call.trace.begin(call.origin, at=float(number))
        attempt.usage, attempt.model, attempt.status = usage, model, 200
    return msgspec.structs.replace(call, **facts)


def test_every_attempt_that_used_tokens_counts():
    report = report_of(*watched(a_paid_call(USED, USED)))

    assert report.usage == USED.plus(USED)
    assert [one.usage for one in report.attempts] == [USED, USED]
    assert (report.cost, report.exact_cost) == (0.06, Decimal("0.06"))
    assert [one.priced.total for one in report.attempts] == [Decimal("0.03")] * 2


def test_an_attempt_costs_what_its_own_model_does():
    """Such as after a downgrade."""
    call = a_paid_call(USED, USED)
    call.trace.attempts[1].model = "claude-haiku-4-5"

    report = report_of(*watched(call))

    assert [one.model for one in report.attempts] == ["claude-opus-5", "claude-haiku-4-5"]
    assert report.exact_cost == Decimal("0.036")


def test_what_an_unknown_model_cost_is_unknown():
    report = report_of(*watched(a_paid_call(USED, model="who-knows-1")))

    assert report.cost is report.cost_at_least is report.exact_cost is None
    assert report.cost_missing == ("prices of 'who-knows-1'",)


def test_a_cut_answer_cost_at_least_what_is_known():
    cut = msgspec.structs.replace(USED, is_final=False)

    report = report_of(*watched(a_paid_call(cut)), Outcome("cut", 1.0))

    assert (report.cost, report.cost_at_least) == (None, 0.03)
    assert report.cost_missing == ("final output tokens",)


def test_a_report_that_nobody_looks_at_prices_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "smartclient.catalog.attempts", None)

    tap, reports = watched(a_paid_call(USED))
    play(tap.after(COMPLETE), [])

    with pytest.raises(ImportError):
        reports[0].get()


def test_what_others_left_in_the_record_is_told():
    call = a_paid_call(scope=Scope(tags=("app", "user")))
    tap, reports = watched(call)
    call.trace.cache = CacheReport(miss="drift")
    call.trace.budget_left = {"app": {"tokens": 5}}

    report = report_of(tap, reports)

    assert report.tags == ("app", "user")
    assert (report.cache.miss, report.budget_left) == ("drift", {"app": {"tokens": 5}})


COUNTED = TokenCount(900, 1000, 1100, "heuristic", "text", 1000)


def taught_by(call, outcome=COMPLETE, **options):
    """A calibrator after the end of `call`."""
    learned = Calibrator()
    telemetry = Telemetry(
        clock=ManualClock(), publish=[].append, calibrator=lambda: learned, **options
    )
    reply, _ = play(telemetry.flow(call, exchange), [a_reply(call=call)])
    for tap in reply.taps:
        play(tap.after(outcome), [])
    return learned


def lessons_of(call, outcome=COMPLETE, **options):
    """What a calibrator is taught by the end of `call`."""
    lessons = taught_by(call, outcome, **options)._lessons
    return {key: lesson.seen for key, lesson in lessons.items()}


def test_a_call_that_was_counted_teaches_once_whatever_its_attempts():
    call = a_paid_call(USED, USED)
    call.trace.counted = COUNTED

    assert lessons_of(call) == {("anthropic", "claude-opus-5", "text"): 1}


def a_counted_call(*usages, **facts):
    call = a_paid_call(*usages)
    call.trace.counted = COUNTED
    for name, value in facts.items():
        setattr(call.trace.attempts[-1], name, value)
    return call


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        pytest.param(a_paid_call(USED), COMPLETE, id="not-counted"),
        pytest.param(a_counted_call(USED), Outcome("cut", 1.0), id="cut"),
        pytest.param(a_counted_call(USED), Outcome("incomplete", 1.0), id="ended-early"),
        pytest.param(a_counted_call(None), COMPLETE, id="nothing-told"),
        pytest.param(a_counted_call(), COMPLETE, id="no-attempt"),
        pytest.param(
            a_counted_call(USED, changes_input=True), COMPLETE, id="a-tool-of-the-provider"
        ),
        pytest.param(
            a_counted_call(Usage(uncached=5, output=-1, inconsistent="-1")),
            COMPLETE,
            id="inconsistent",
        ),
        pytest.param(a_counted_call(USED, model=None), COMPLETE, id="no-model"),
    ],
)
def test_what_says_nothing_about_the_count_teaches_nothing(call, outcome):
    assert lessons_of(call, outcome) == {}


def test_where_all_are_counted_a_call_that_nobody_counted_teaches_too():
    assert lessons_of(a_paid_call(USED), counts_all=True) == {
        ("anthropic", "claude-opus-5", "text"): 1
    }
    assert lessons_of(a_paid_call(USED), Outcome("cut", 1.0), counts_all=True) == {}


def test_what_was_sent_is_counted_whatever_became_of_the_payload():
    payload = {"model": "claude-opus-5", "messages": [{"role": "user", "content": "x " * 500}]}
    body = msgspec.json.encode(payload)
    payload["messages"].clear()

    learned = taught_by(a_paid_call(USED, payload=payload, body=body), counts_all=True)

    (lesson,) = learned._lessons.values()
    assert 1 / lesson.p > 400  # the estimate of its one call


def test_an_endless_stream_does_not_fill_the_memory():
    tap, reports = watched(a_call(payload=STREAMED))

    for at in range(telemetry._MAX_GAPS + 1):
        tap.feed(TOKENS, at)
    tap.feed(TOKENS, at + 100.0)

    assert report_of(tap, reports).itl_max == 1.0


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        pytest.param(Outcome("complete", 1.0), None, id="complete"),
        pytest.param(Outcome("cut", 1.0), "cut", id="cut"),
        pytest.param(Outcome("incomplete", 1.0), "incomplete", id="incomplete"),
        pytest.param(Outcome("failed", 1.0, "read"), "read", id="failed"),
    ],
)
def test_a_body_that_ended_early_says_how(outcome, error):
    assert report_of(*watched(), outcome).error == error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(ExchangeError("no", kind="connect"), "connect", id="exchange"),
        pytest.param(RefusedError("no"), "refused", id="refused"),
        pytest.param(asyncio.CancelledError(), "cut", id="cancelled"),
        pytest.param(KeyboardInterrupt(), "cut", id="interrupted"),
        pytest.param(ValueError("a bad header"), "ValueError", id="ours"),
    ],
)
def test_a_call_without_a_reply_is_reported_at_once(error, kind):
    call, reports = a_call(), []
    call.trace.begin(call.origin, at=2.0)
    flow = Telemetry(clock=ManualClock(5.0), publish=reports.append).flow(call, exchange)

    with pytest.raises(type(error)):
        play(flow, [error])

    report = reports[0].get()
    assert (report.error, report.status, report.duration) == (kind, None, 5.0)
    assert report.attempts[0].number == 1
    assert call.trace.report.get() is report


def test_the_stages_of_the_last_attempt_and_the_waits_are_told():
    call = a_call()
    call.trace.prepared = 0.5
    call.trace.begin(Origin("http", "a", 1), at=1.0)
    call.trace.backoffs += (Span(1.0, 3.0), Span(4.0, 5.0))
    last = call.trace.begin(Origin("http", "b", 2), at=5.0)
    last.timeline.tcp, last.timeline.protocol = Span(5.0, 6.0), "HTTP/1.1"

    report = report_of(*watched(call))

    assert report.stages["prepare"] == Stage(0.0, 0.5)
    assert report.stages["tcp"] == Stage(5.0, 1.0)
    assert report.stages["backoff"] == Stage(1.0, 3.0)
    assert [one.origin for one in report.attempts] == ["http://a:1", "http://b:2"]
    assert (report.reused, report.protocol) == (False, "HTTP/1.1")


def test_the_servers_stages_begin_when_the_request_was_sent():
    call = a_call()
    call.trace.begin(call.origin, at=1.0).timeline.send = Span(2.0, 2.5)

    tap, reports = watched(call, server_timing="queue;dur=1000")
    tap.comment(" Server-Timing prefill;start=1000;dur=500")
    tap.comment("ping")
    report = report_of(tap, reports)

    assert report.server == {"queue": Stage(0.0, 1.0), "prefill": Stage(1.0, 0.5)}
    assert report.stages["queue"] == Stage(2.0, 1.0)
    assert report.attempts[0].stages["prefill"] == Stage(3.0, 0.5)


def test_only_the_attempt_that_was_answered_has_the_servers_stages():
    call = a_call()
    for at in (1.0, 2.0):
        call.trace.begin(call.origin, at=at).timeline.send = Span(at, at)

    report = report_of(*watched(call, server_timing="queue;dur=1000"))

    assert ["queue" in one.stages for one in report.attempts] == [False, True]


def test_a_stage_that_was_measured_here_is_not_the_servers_to_tell():
    """Proxies name stages of their own, such as `send`."""
    call = a_call()
    call.trace.begin(call.origin, at=1.0).timeline.send = Span(2.0, 2.5)

    report = report_of(*watched(call, server_timing="send;dur=9000"))

    assert report.stages["send"] == report.attempts[0].stages["send"] == Stage(2.0, 0.5)


def test_without_a_send_the_servers_stages_have_no_place():
    report = report_of(*watched(server_timing="queue;dur=1000"))

    assert report.server == {"queue": Stage(0.0, 1.0)}
    assert "queue" not in report.stages


def test_a_failure_in_the_stream_is_no_news_to_the_watch():
    """The body's outcome tells it."""
    tap, reports = watched()

    tap.feed(Delta(failure=Failure(kind="overloaded")), 1.0)

    assert report_of(tap, reports).error is None
